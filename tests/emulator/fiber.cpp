// Stacks, and the few instructions that go from one to another.
#include "tests/emulator/fiber.h"

namespace mala::emulator {
namespace {

constexpr size_t kStackBytes = 256 * 1024;

}  // namespace

// Keeps what a call must keep, leaves the stack pointer in *from, and goes on from `to`.
extern "C" void mala_emulator_switch(void** from, void* to);
asm(R"(
.text
.globl mala_emulator_switch
.type mala_emulator_switch,@function
mala_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size mala_emulator_switch,.-mala_emulator_switch
)");

Fiber::Fiber() : stack_(kStackBytes) {}

void Fiber::start(void (*body)()) {
  void** top = reinterpret_cast<void**>(stack_.end());
  *--top = nullptr;  // where `body` would return to; it also aligns the stack as a call does
  *--top = reinterpret_cast<void*>(body);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  inside_ = top;
}

void Fiber::resume() { mala_emulator_switch(&outside_, inside_); }
void Fiber::pause() { mala_emulator_switch(&inside_, outside_); }

}  // namespace mala::emulator
