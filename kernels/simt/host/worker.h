// One host thread that runs blocks, one after another, each block's threads as fibers.
#pragma once

#include <exception>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/simt/host/fiber.h"
#include "kernels/simt/host/hooks.h"
#include "kernels/simt/host/memory.h"
#include "kernels/simt/host/shared.h"
#include "kernels/simt/host/sites.h"
#include "kernels/simt/session.h"

namespace genesis::simt::host {

struct AsyncCopy {
  const unsigned char* source;
  size_t target;            // offset in shared memory
  int bytes, source_bytes;  // the rest is zero
  int site;
};

struct Thread {
  enum class State { ready, at_barrier, at_warp_operation, ended };
  int index = 0;  // in the block
  State state = State::ready;
  Fiber fiber;
  bool started = false;
  const char* waits_for = nullptr;  // a warp operation's name
  Site where;                       // of what it waits for
  std::vector<AsyncCopy> copies;    // that have not landed
  std::vector<size_t> groups;       // where each committed group ends in copies
};

// Lanes gathering for a warp operation.
struct Meeting {
  uint32_t mask = 0, arrived = 0;
  const char* what = nullptr;
  Site where;
  void* lanes[32] = {};
};

struct Warp {
  uint16_t epoch = 0;    // counts sync_warp since the last barrier
  Meeting meetings[32];  // by the mask's lowest lane
  // Accesses since the warp's lanes last met, by site: the lanes' k-th executions make one instruction.
  struct AtSite {
    uint16_t executed[32] = {};
    std::vector<WarpAccess> instructions;
  };
  std::vector<AtSite> sites;
  std::vector<int> touched;  // sites with instructions
};

class Worker {
 public:
  Worker() = default;

  // Prepares for a launch's blocks.
  void begin(const SessionOptions& options, const Launched& launched);  // which outlives them
  // Throws genesis::Error for what is wrong in the kernel.
  void run_block(int64_t block);
  // What was counted since begin.
  void add_to(LaunchReport& report, Counters& counters) const;

  // For the thread that runs now.
  Thread& thread() { return *current_; }
  void* shared_memory(size_t bytes, Site site);
  void expect(uintptr_t address, Where where, Site site) const;
  void read(void* value, uintptr_t address, size_t bytes, Kind kind, Site site);
  void write(uintptr_t address, const void* value, size_t bytes, Site site);
  void barrier(Site site);
  void sync_warp(Site site);
  void copy_async(uintptr_t shared, uintptr_t global, int bytes, int source_bytes, Site site);
  void commit_copies() { thread().groups.push_back(thread().copies.size()); }
  void wait_copies(int groups_left);
  void count_mma() { ++mma_; }
  void* const* meet(const char* what, uint32_t mask, void* mine, Site site);
  void leave(uint32_t mask);
  [[noreturn]] void fail(const std::string& what, Site site) const;

 private:
  static void enter(void* worker);
  void set_current(Thread& t);
  void switch_from(Fiber& from);
  Thread* next();
  void release(Thread& t);
  [[noreturn]] void report_deadlock() const;

  unsigned char* locate(uintptr_t address, size_t bytes, const char* verb, Site site);
  void check_alignment(uintptr_t address, size_t bytes, const char* verb, Site site) const;
  [[noreturn]] void fail_bounds(uintptr_t address, size_t bytes, const char* verb, Site site) const;
  void check_race(const SharedMemory::Conflict* conflict, const char* verb, Site site) const;
  int note(Space space, Kind kind, uintptr_t address, size_t bytes, Site site);
  SharedMemory::Access access(int site) const;
  Warp& warp() { return warps_[size_t(current_->index) / 32]; }
  void close_instructions(Warp& w);

  SessionOptions options_;
  LaunchShape shape_{};
  const std::function<void()>* body_ = nullptr;
  Stacks stacks_;
  SharedMemory shared_;
  SiteTable sites_;
  Counters counters_;
  int64_t mma_ = 0, barriers_ = 0;

  std::mt19937_64 random_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<Thread*> ready_;  // a ring
  size_t ready_first_ = 0, ready_count_ = 0;
  std::vector<int> order_;
  int at_barrier_ = 0, ended_ = 0;
  Fiber host_;
  Thread* current_ = nullptr;
  const Allocation* last_allocation_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace genesis::simt::host
