// The orders in which the host executor runs threads and blocks, recorded by the kernels themselves.
#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/simt/device.h"
#include "kernels/simt/session.h"
#include "kernels/simt/simt.h"
#include "tests/support/catch.h"

using namespace genesis;

namespace {

using Indices = std::vector<int>;

constexpr int kThreads = 96, kBlocks = 5;

// What ran, as block * kThreads + thread: from the start, after a block's barrier, after a warp's.
struct Record {
  Indices started, after_barrier, after_warp;
};

int whole_index() { return int(blockIdx.x * kThreads + threadIdx.x); }

__global__ void record_kernel(Record* record) {
  record->started.push_back(whole_index());
  simt::sync_threads();
  record->after_barrier.push_back(whole_index());
  simt::sync_warp();
  record->after_warp.push_back(whole_index());
}

Record record_in(simt::Order order, uint64_t seed = 1) {
  Record record;
  simt::Session session({.order = order, .seed = seed});
  simt::launch(record_kernel, {.grid = {kBlocks}, .block = kThreads, .name = "record"}, &record);
  return record;
}

Indices all_of(const Record& r) {
  Indices all = r.started;
  all.insert(all.end(), r.after_barrier.begin(), r.after_barrier.end());
  all.insert(all.end(), r.after_warp.begin(), r.after_warp.end());
  return all;
}

Indices counted(int n, bool backwards) {
  Indices v(size_t(n), 0);
  std::iota(v.begin(), v.end(), 0);
  if (backwards) std::reverse(v.begin(), v.end());
  return v;
}

Indices sorted(Indices v) {
  std::sort(v.begin(), v.end());
  return v;
}

// Of one block, in the order in which they ran.
Indices threads_of(const Indices& recorded, int block) {
  Indices v;
  for (const int x : recorded) {
    if (x / kThreads == block) v.push_back(x % kThreads);
  }
  return v;
}

Indices blocks_of(const Indices& recorded) {
  Indices v;
  for (int i = 0; i < kBlocks; ++i) v.push_back(recorded[size_t(i * kThreads)] / kThreads);
  return v;
}

}  // namespace

TEST_CASE("forward and reverse run the threads and blocks from the first, and from the last") {
  for (const bool backwards : {false, true}) {
    const Record r = record_in(backwards ? simt::Order::reverse : simt::Order::forward);
    const Indices expected = counted(kBlocks * kThreads, backwards);
    CHECK(r.started == expected);
    CHECK(r.after_barrier.size() == expected.size());
    CHECK(sorted(r.after_barrier) == sorted(expected));
    CHECK(sorted(r.after_warp) == sorted(expected));
    // The last to arrive at a barrier goes on at once, the others in order.
    Indices others = threads_of(r.after_barrier, 0);
    CHECK(others.front() == (backwards ? 0 : kThreads - 1));
    CHECK(std::is_sorted(others.begin() + 1, others.end(),
                         [&](int a, int b) { return backwards ? a > b : a < b; }));
  }
}

TEST_CASE("shuffled runs every thread and block once, in an order of its seed's own") {
  const Record r = record_in(simt::Order::shuffled);
  for (const Indices& recorded : {r.started, r.after_barrier, r.after_warp}) {
    CHECK(sorted(recorded) == counted(kBlocks * kThreads, false));
    CHECK(threads_of(recorded, 0) != counted(kThreads, false));
    CHECK(threads_of(recorded, 0) != counted(kThreads, true));
    CHECK(threads_of(recorded, 0) != threads_of(recorded, 1));
  }
  CHECK(threads_of(r.started, 0) != threads_of(r.after_barrier, 0));
  CHECK(blocks_of(r.started) != counted(kBlocks, false));
  CHECK(blocks_of(r.started) != counted(kBlocks, true));
  CHECK(sorted(blocks_of(r.started)) == counted(kBlocks, false));
  CHECK(all_of(record_in(simt::Order::shuffled)) == all_of(r));
  const Record other = record_in(simt::Order::shuffled, 2);
  CHECK(threads_of(other.started, 0) != threads_of(r.started, 0));
  CHECK(blocks_of(other.started) != blocks_of(r.started));
}

TEST_CASE("in_all_orders takes each order once") {
  std::vector<simt::Order> orders;
  simt::in_all_orders([&](simt::Session& session) { orders.push_back(session.options().order); });
  CHECK(orders == std::vector{simt::Order::forward, simt::Order::reverse, simt::Order::shuffled});
}
