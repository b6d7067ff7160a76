#include "kernels/simt/host/worker.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "kernels/common/error.h"

namespace genesis::simt::host {
namespace {

std::string place(Site site) { return std::string(site.file_name()) + ":" + std::to_string(site.line()); }

}  // namespace

void Worker::begin(const SessionOptions& options, const Launched& launched) {
  options_ = options;
  shape_ = launched.shape;
  body_ = &launched.body;
  counters_ = {};
  sites_ = {};
  mma_ = barriers_ = 0;
  last_allocation_ = nullptr;
  threads_.resize(size_t(shape_.block));
  warps_.assign(size_t(shape_.block) / 32, {});
  ready_.resize(threads_.size());
  order_.resize(threads_.size());
}

void Worker::run_block(int64_t block) {
  stacks_.reserve(shape_.block);
  shared_.begin_block(shape_.shared_bytes);
  blockDim = {unsigned(shape_.block), 1, 1};
  gridDim = {unsigned(shape_.grid[0]), unsigned(shape_.grid[1]), unsigned(shape_.grid[2])};
  blockIdx = {unsigned(block % shape_.grid[0]), unsigned(block / shape_.grid[0] % shape_.grid[1]),
              unsigned(block / shape_.grid[0] / shape_.grid[1])};

  std::iota(order_.begin(), order_.end(), 0);
  random_.seed(options_.seed * 0x9e3779b97f4a7c15u + uint64_t(block));
  if (options_.order == Order::reverse) std::reverse(order_.begin(), order_.end());
  if (options_.order == Order::shuffled) std::shuffle(order_.begin(), order_.end(), random_);
  for (Warp& w : warps_) {
    w.epoch = 0;
    for (Meeting& m : w.meetings) m.arrived = 0;
  }
  ready_first_ = ready_count_ = 0;
  at_barrier_ = ended_ = 0;
  error_ = nullptr;
  for (const int i : order_) {
    Thread& t = threads_[size_t(i)];
    t.index = i;
    t.started = false;
    t.copies.clear();
    t.groups.clear();
    release(t);
  }
  switch_from(host_);
  if (error_) std::rethrow_exception(error_);
  if (ended_ < shape_.block) report_deadlock();
  for (Warp& w : warps_) close_instructions(w);
}

void Worker::add_to(LaunchReport& report, Counters& counters) const {
  report.mma += mma_;
  report.barriers += barriers_;
  counters.add(counters_);
}

// The fibers ------------------------------------------------------------------------------------------------

// A fiber's life: the thread it was made for, then threads that have not started, on the same warm stack.
void Worker::enter(void* worker) {
  Worker& w = *static_cast<Worker*>(worker);
  for (;;) {
    try {
      (*w.body_)();
    } catch (...) {
      w.error_ = std::current_exception();
    }
    Thread& t = *w.current_;
    t.state = Thread::State::ended;
    ++w.ended_;
    Thread* n = w.error_ ? nullptr : w.next();
    if (!n) return leave_fiber(t.fiber, w.host_);
    w.set_current(*n);
    if (n->started) return leave_fiber(t.fiber, n->fiber);
    n->started = true;
    n->fiber = t.fiber;
  }
}

void Worker::set_current(Thread& t) {
  current_ = &t;
  threadIdx.x = unsigned(t.index);
}

// The next ready thread, or null if there is none.
Thread* Worker::next() {
  if (ready_count_ == 0) return nullptr;
  if (options_.order == Order::shuffled) {
    const size_t pick = (ready_first_ + random_() % ready_count_) % ready_.size();
    std::swap(ready_[ready_first_], ready_[pick]);
  }
  Thread* t = ready_[ready_first_];
  ready_first_ = (ready_first_ + 1) % ready_.size();
  --ready_count_;
  return t;
}

// Goes on in a ready thread from one that waits, or from the host thread; back to the host thread if there is
// none.
void Worker::switch_from(Fiber& from) {
  Thread* n = next();
  if (!n) return switch_fiber(from, host_);
  set_current(*n);
  if (!n->started) {
    n->started = true;
    prepare(n->fiber, stacks_.take(), enter, this);
  }
  switch_fiber(from, n->fiber);
}

void Worker::release(Thread& t) {
  t.state = Thread::State::ready;
  ready_[(ready_first_ + ready_count_++) % ready_.size()] = &t;
}

void Worker::barrier(Site site) {
  Thread& me = *current_;
  me.state = Thread::State::at_barrier;
  me.where = site;
  if (++at_barrier_ < shape_.block) return switch_from(me.fiber);
  for (const Thread& t : threads_) {
    if (t.where.line() != site.line() || t.where.column() != site.column()) {
      fail("divergent barrier: thread " + std::to_string(t.index) + " is at another one, " + place(t.where),
           site);
    }
  }
  at_barrier_ = 0;
  ++barriers_;
  shared_.barrier();
  for (Warp& w : warps_) {
    close_instructions(w);
    w.epoch = 0;
  }
  for (const int i : order_) {
    if (i != me.index) release(threads_[size_t(i)]);
  }
  me.state = Thread::State::ready;
}

void* const* Worker::meet(const char* what, uint32_t mask, void* mine, Site site) {
  Thread& me = *current_;
  const int lane = me.index % 32;
  if (!(mask >> lane & 1)) fail(std::string(what) + " by a lane that is not in its mask", site);
  Meeting& m = warp().meetings[std::countr_zero(mask)];
  if (m.arrived == 0) {
    m.mask = mask;
    m.what = what;
    m.where = site;
    std::fill(std::begin(m.lanes), std::end(m.lanes), nullptr);
  } else if (m.what != what || m.mask != mask || m.where.line() != site.line() ||
             m.where.column() != site.column()) {
    fail(std::string(what) + " while lanes of its warp are at " + m.what + " (" + place(m.where) +
             (m.mask != mask ? ") with another mask" : ")"),
         site);
  }
  m.lanes[lane] = mine;
  m.arrived |= 1u << lane;
  if (m.arrived == mask) {
    if (mask == ~0u) close_instructions(warp());
    return m.lanes;
  }
  me.state = Thread::State::at_warp_operation;
  me.waits_for = what;
  me.where = site;
  switch_from(me.fiber);
  return nullptr;
}

void Worker::leave(uint32_t mask) {
  const size_t first = size_t(current_->index) / 32 * 32;
  warp().meetings[std::countr_zero(mask)].arrived = 0;
  const auto release_lane = [&](int lane) {
    if (mask >> lane & 1 && &threads_[first + size_t(lane)] != current_)
      release(threads_[first + size_t(lane)]);
  };
  if (options_.order == Order::reverse) {
    for (int lane = 31; lane >= 0; --lane) release_lane(lane);
  } else {
    for (int lane = 0; lane < 32; ++lane) release_lane(lane);
  }
}

void Worker::sync_warp(Site site) {
  int none = 0;
  if (meet("sync_warp", ~0u, &none, site)) {
    ++warp().epoch;
    leave(~0u);
  }
}

void Worker::report_deadlock() const {
  const auto describe = [](const Thread& t) {
    switch (t.state) {
      case Thread::State::at_barrier:
        return "is at a barrier (" + place(t.where) + ")";
      case Thread::State::at_warp_operation:
        return "is at " + std::string(t.waits_for) + " (" + place(t.where) + ")";
      default:
        return std::string("has ended");
    }
  };
  const auto waiting = [](const Thread& t) { return t.state != Thread::State::ended; };
  // A lane missing from a warp operation says more than the barrier that others wait at because of it.
  auto stuck = std::find_if(threads_.begin(), threads_.end(),
                            [](const Thread& t) { return t.state == Thread::State::at_warp_operation; });
  std::string what = "divergent barrier: part of the block waits at it; thread ";
  auto missing = threads_.end();
  if (stuck != threads_.end()) {
    what = "lane missing from " + std::string(stuck->waits_for) + ": thread ";
    const Warp& w = warps_[size_t(stuck->index) / 32];
    for (const Meeting& m : w.meetings) {
      if (m.arrived == 0 || !(m.mask >> (stuck->index % 32) & 1)) continue;
      missing = threads_.begin() + stuck->index / 32 * 32 + std::countr_zero(m.mask & ~m.arrived);
    }
  } else {
    stuck = std::find_if(threads_.begin(), threads_.end(), waiting);
    missing = std::find_if_not(threads_.begin(), threads_.end(), waiting);
  }
  const Site where = stuck->where;
  threadIdx.x = unsigned(stuck->index);
  fail(what + std::to_string(missing->index) + " " + describe(*missing), where);
}

void Worker::fail(const std::string& what, Site site) const {
  const auto three = [](Index i) {
    return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
  };
  throw Error("kernel " + std::string(shape_.name) + ", block " + three(blockIdx) + ", thread " +
              std::to_string(threadIdx.x) + ": " + what + " (" + place(site) + ")");
}

}  // namespace genesis::simt::host
