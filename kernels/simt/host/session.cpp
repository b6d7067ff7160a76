#include "kernels/simt/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <random>

#include "kernels/common/error.h"
#include "kernels/common/parallel.h"
#include "kernels/simt/host/queue.h"
#include "kernels/simt/host/worker.h"

namespace genesis::simt {
namespace host {
namespace {

Session* open_session = nullptr;
LaunchTaker launch_taker = nullptr;

// The host thread's own; kept from launch to launch for its stacks.
Worker& worker() {
  static thread_local Worker w;
  return w;
}

std::vector<int64_t> block_order(int64_t blocks, const SessionOptions& o) {
  std::vector<int64_t> order(static_cast<size_t>(blocks));
  std::iota(order.begin(), order.end(), 0);
  if (o.order == Order::reverse) std::reverse(order.begin(), order.end());
  if (o.order == Order::shuffled) std::shuffle(order.begin(), order.end(), std::mt19937_64(o.seed));
  return order;
}

}  // namespace

void give_launches_to(LaunchTaker taker) { launch_taker = taker; }

void launch(Launched launched, Stream stream) {
  if (launch_taker) return launch_taker(std::move(launched), stream);
  run(launched);
}

void run(const Launched& launched) {
  const LaunchShape& shape = launched.shape;
  check(open_session != nullptr,
        "kernel " + std::string(shape.name) + " was launched with no simt::Session open");
  const SessionOptions& options = open_session->options();
  check(shape.shared_bytes <= options.shared_limit,
        fmt::format("kernel {}: {} bytes of shared memory a block, over the limit of {}", shape.name,
                    shape.shared_bytes, options.shared_limit));
  LaunchReport report;
  report.name = shape.name;
  report.kernel = shape.kernel;
  std::copy(shape.grid, shape.grid + 3, report.grid);
  report.block = shape.block;
  report.shared_bytes = shape.shared_bytes;

  const std::vector<int64_t> order = block_order(shape.grid[0] * shape.grid[1] * shape.grid[2], options);
  std::atomic<size_t> taken = 0;
  std::mutex mutex;
  size_t failed = order.size();
  std::exception_ptr error;
  Counters counters;
  global_memory().close();
  parallel_for(std::min<int64_t>(options.workers, int64_t(order.size())), [&](int64_t) {
    Worker& w = worker();
    w.begin(options, launched);
    for (size_t i = taken++; i < order.size(); i = taken++) {
      try {
        w.run_block(order[i]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) failed = i, error = std::current_exception();
        taken = order.size();
      }
    }
    const std::lock_guard lock(mutex);
    w.add_to(report, counters);
  });
  if (error) {
    global_memory().open();
    std::rethrow_exception(error);
  }
  counters.fill(report);
  open_session->add(std::move(report));
}

void* shared_memory(size_t bytes, Site site) { return worker().shared_memory(bytes, site); }
void expect(const void* address, Where where, Site site) {
  worker().expect(reinterpret_cast<uintptr_t>(address), where, site);
}
void read(void* value, const void* address, size_t bytes, Kind kind, Site site) {
  worker().read(value, reinterpret_cast<uintptr_t>(address), bytes, kind, site);
}
void write(void* address, const void* value, size_t bytes, Site site) {
  worker().write(reinterpret_cast<uintptr_t>(address), value, bytes, site);
}
void barrier(Site site) { worker().barrier(site); }
void sync_warp(Site site) { worker().sync_warp(site); }
void copy_async(void* shared, const void* global, int bytes, int source_bytes, Site site) {
  worker().copy_async(reinterpret_cast<uintptr_t>(shared), reinterpret_cast<uintptr_t>(global), bytes,
                      source_bytes, site);
}
void commit_copies() { worker().commit_copies(); }
void wait_copies(int groups_left) { worker().wait_copies(groups_left); }
void count_mma() { worker().count_mma(); }
void* const* meet(const char* what, uint32_t mask, void* mine, Site site) {
  return worker().meet(what, mask, mine, site);
}
void leave(uint32_t mask) { worker().leave(mask); }

void fail_shuffle(int lane, int source, Site site) {
  worker().fail("shuffle: lane " + std::to_string(lane) + " asks for lane " + std::to_string(source) +
                    ", which is not in the mask",
                site);
}

uint32_t ballot(bool predicate, uint32_t mask, Site site) {
  struct Lane {
    bool predicate;
    uint32_t result;
  } mine{predicate, 0};
  together("vote", mask, mine, site, [&](Lane* const* lanes) {
    uint32_t votes = 0;
    for (int i = 0; i < 32; ++i) votes |= uint32_t(lanes[i] && lanes[i]->predicate) << i;
    for (int i = 0; i < 32; ++i) {
      if (lanes[i]) lanes[i]->result = votes;
    }
  });
  return mine.result;
}

}  // namespace host

Session::Session(const SessionOptions& options) : options_(options) {
  check(host::open_session == nullptr, "a simt::Session is open already");
  host::open_session = this;
}

Session::~Session() {
  host::open_session = nullptr;
  host::global_memory().open();
}

}  // namespace genesis::simt
