// Products of warpgroups, made as late as they may: when a warp waits for them, from what is in
// shared memory then. Until then their sums are a NaN that nobody else makes.
#include <algorithm>
#include <bit>

#include "tests/emulator/descriptor.h"
#include "tests/emulator/ptx.h"
#include "tests/emulator/scheduler.h"
#include "tests/emulator/tensor_core.h"
#include "tests/emulator/warp.h"

namespace mala::emulator {
namespace {

constexpr int kRows = 16;  // of a warp
constexpr uint32_t kOnItsWay = 0x7FC0DEAD;

WarpProducts& products_of(const Meeting& meeting) { return warp_of(*meeting.threads[0]).products; }

// (16 rows, depth), from the registers of all lanes.
std::vector<float> left_of_registers(const Meeting& meeting) {
  const auto& first = arguments_of<ProductRequest>(meeting, 0);
  const int depth = depth_of(first.kind);
  std::vector<float> left(static_cast<size_t>(kRows * depth));
  for (int lane = 0; lane < kLanes; ++lane) {
    const uint32_t* from = arguments_of<ProductRequest>(meeting, lane).left_registers;
    for (int i = 0; i < 4; ++i) {
      float* row = &left[static_cast<size_t>((lane / 4 + 8 * (i % 2)) * depth)];
      if (first.kind == Operand::kTf32) {
        row[lane % 4 + 4 * (i / 2)] = from_tf32(from[i]);
      } else {
        float* two = row + 2 * (lane % 4) + 8 * (i / 2);
        two[0] = std::bit_cast<float>(from[i] << 16);
        two[1] = std::bit_cast<float>(from[i] & 0xFFFF0000u);
      }
    }
  }
  return left;
}

void check_alike(const Meeting& meeting) {
  const auto& first = arguments_of<ProductRequest>(meeting, 0);
  for (int lane = 1; lane < kLanes; ++lane) {
    const auto& other = arguments_of<ProductRequest>(meeting, lane);
    if (other.right != first.right || other.left != first.left || other.adds != first.adds ||
        other.columns != first.columns || other.kind != first.kind)
      fail_at(first.where, "lanes 0 and ", lane, " ask for different products");
  }
}

// Those that are on their way already, or new ones, which are marked.
std::shared_ptr<Sums> sums_of(const Meeting& meeting) {
  const auto& first = arguments_of<ProductRequest>(meeting, 0);
  const int each = first.columns / 2;  // of a lane
  std::vector<std::shared_ptr<Sums>>& known = products_of(meeting).sums;
  for (const std::shared_ptr<Sums>& sums : known)
    if (sums->columns == first.columns && sums->at[0] == first.sums[0] &&
        sums->at[each - 1] == first.sums[each - 1])
      return sums;
  auto sums = std::make_shared<Sums>();
  sums->columns = first.columns;
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < each; ++i) {
      float* at = arguments_of<ProductRequest>(meeting, lane).sums[i];
      sums->at.push_back(at);
      sums->values.push_back(*at);
      *at = std::bit_cast<float>(kOnItsWay);
    }
  }
  known.push_back(sums);
  return sums;
}

void start_all(Meeting& meeting) {
  check_alike(meeting);
  Product product{arguments_of<ProductRequest>(meeting, 0), {}, sums_of(meeting)};
  if (product.request.left_registers) product.left = left_of_registers(meeting);
  ++product.sums->in_flight;
  products_of(meeting).open.push_back(std::move(product));
}

// Where (row, column) of the result is among the sums: with the lane that holds it.
size_t place_of(const Sums& sums, int row, int column) {
  const int each = sums.columns / 2, lane = row % 8 * 4 + column % 8 / 2;
  return static_cast<size_t>(lane * each + column / 8 * 4 + row / 8 * 2 + column % 2);
}

RightSide right_of(const ProductRequest& x) {
  RightSide right(x.kind, depth_of(x.kind), x.columns);
  const std::vector<float> by_column =
      Side(x.right, x.kind, x.right_transposed, x.where).read(0, x.columns);
  for (int column = 0; column < x.columns; ++column)
    for (int k = 0; k < right.depth; ++k) right.set(k, column, by_column[column * right.depth + k]);
  return right;
}

void multiply(const Product& product, int warp) {
  const ProductRequest& x = product.request;
  const RightSide right = right_of(x);
  const std::vector<float> left =
      x.left_registers
          ? product.left
          : Side(x.left, x.kind, x.left_transposed, x.where).read(warp % 4 * kRows, kRows);
  Sums& sums = *product.sums;
  std::vector<float> row_sums(static_cast<size_t>(x.columns));
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < x.columns; ++column)
      row_sums[column] = x.adds ? sums.values[place_of(sums, row, column)] : 0.0f;
    add_row(&left[static_cast<size_t>(row * right.depth)], right, row_sums.data());
    for (int column = 0; column < x.columns; ++column)
      sums.values[place_of(sums, row, column)] = row_sums[column];
  }
}

// Whoever wrote to the sums, or moved them elsewhere, before this wait has lost what he wrote.
void hand_over(const Sums& sums, const Where& product, const Where& wait) {
  for (size_t i = 0; i < sums.at.size(); ++i) {
    if (std::bit_cast<uint32_t>(*sums.at[i]) != kOnItsWay)
      fail_at(wait, "before this wait, a sum of the product of line ", product.line(),
              " was written or moved");
    *sums.at[i] = sums.values[i];
  }
}

struct WaitArguments {
  size_t pending;
  Where where;
};

void finish_all(Meeting& meeting) {
  const auto& wait = arguments_of<WaitArguments>(meeting, 0);
  WarpProducts& products = products_of(meeting);
  while (products.groups.size() > wait.pending) {
    for (const Product& product : products.groups.front()) {
      multiply(product, meeting.threads[0]->warp());
      if (--product.sums->in_flight > 0) continue;
      hand_over(*product.sums, product.request.where, wait.where);
      std::erase(products.sums, product.sums);
    }
    products.groups.pop_front();
  }
}

}  // namespace

void start_product(ProductRequest request) {
  meet_all("wgmma", &request, start_all, request.where);
}

void commit_products(const Where& where) {
  auto commit = [](Meeting& meeting) {
    WarpProducts& products = products_of(meeting);
    products.groups.push_back(std::move(products.open));
    products.open.clear();
  };
  meet_all("wgmma.commit_group", nullptr, commit, where);
}

void wait_products(size_t pending, const Where& where) {
  WaitArguments arguments{pending, where};
  meet_all("wgmma.wait_group", &arguments, finish_all, where);
}

}  // namespace mala::emulator
