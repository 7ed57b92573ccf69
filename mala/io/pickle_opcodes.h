// The opcodes of pickles, named as Python's own documentation names them.
#pragma once

namespace mala::io::op {

// Numbers and other constants
inline constexpr char kNone = 'N', kNewTrue = '\x88', kNewFalse = '\x89', kInt = 'I', kLong = 'L',
                      kFloat = 'F', kBinInt = 'J', kBinInt1 = 'K', kBinInt2 = 'M', kLong1 = '\x8a',
                      kLong4 = '\x8b', kBinFloat = 'G';

// Text and bytes
inline constexpr char kString = 'S', kShortBinString = 'U', kBinString = 'T', kUnicode = 'V',
                      kBinUnicode = 'X', kShortBinUnicode = '\x8c', kBinUnicode8 = '\x8d',
                      kBinBytes = 'B', kShortBinBytes = 'C', kBinBytes8 = '\x8e',
                      kByteArray8 = '\x96';

// Containers
inline constexpr char kEmptyList = ']', kAppend = 'a', kAppends = 'e', kList = 'l',
                      kEmptyDict = '}', kSetItem = 's', kSetItems = 'u', kDict = 'd',
                      kEmptyTuple = ')', kTuple = 't', kTuple1 = '\x85', kTuple2 = '\x86',
                      kTuple3 = '\x87', kEmptySet = '\x8f', kAddItems = '\x90', kFrozenSet = '\x91';

// Objects
inline constexpr char kGlobal = 'c', kStackGlobal = '\x93', kReduce = 'R', kBuild = 'b',
                      kInst = 'i', kObj = 'o', kNewObj = '\x81', kNewObjEx = '\x92', kPersId = 'P',
                      kBinPersId = 'Q', kExt1 = '\x82', kExt2 = '\x83', kExt4 = '\x84';

// The memo, the stack and the frame
inline constexpr char kMark = '(', kPop = '0', kPopMark = '1', kDup = '2', kPut = 'p',
                      kBinPut = 'q', kLongBinPut = 'r', kMemoize = '\x94', kGet = 'g',
                      kBinGet = 'h', kLongBinGet = 'j', kProto = '\x80', kFrame = '\x95',
                      kStop = '.';

}  // namespace mala::io::op
