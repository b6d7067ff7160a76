// How the host executor runs kernels, and what it counted. A launch needs an open Session; one is open at a
// time. On a GPU a Session has no reports; with Order::forward it starts kernels at once, with the others it
// captures what is started on the thread's own stream into a CUDA graph, which finish() runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace genesis::simt {

enum class Order { forward, reverse, shuffled };  // in which a block's threads run, and the grid's blocks

struct SessionOptions {
  Order order = Order::forward;
  uint64_t seed = 1;        // of the shuffle
  bool check_races = true;  // between the threads of a block, in shared memory
  bool count = true;        // fill reports
  int workers = 1;          // host threads that the blocks are spread over
  size_t shared_limit =
      99 * 1024;  // bytes a block may have: 99 KB on sm_89 and sm_120, 163 on sm_80, 227 on sm_90
};

enum class Space { global, shared };

// All executions of one access in the source.
struct SiteCount {
  std::string file;
  unsigned line = 0, column = 0;
  Space space = Space::global;
  std::string kind;          // load, store, copy (asynchronous), matrix (ldmatrix)
  int bytes = 0;             // a lane
  int64_t instructions = 0;  // a warp's
  int64_t lanes = 0;         // that took part, summed over instructions
  // Global memory, a sector is 32 bytes: touched, and the fewest that could hold the distinct bytes asked
  // for, summed over instructions.
  int64_t sectors = 0, sectors_needed = 0;
  // Shared memory: passes over the banks beyond what the access size needs.
  int64_t bank_conflicts = 0;
};

// All accesses to one Buffer, in 32-byte sectors: summed over instructions, and how many different ones,
// which is what memory itself would be asked for if the caches never lost a line.
struct BufferCount {
  const void* data = nullptr;
  size_t bytes = 0;
  int64_t read = 0, written = 0;
  int64_t distinct_read = 0, distinct_written = 0;
};

struct LaunchReport {
  std::string name;
  const void* kernel = nullptr;  // the function
  int64_t grid[3] = {1, 1, 1};
  int block = 0;
  size_t shared_bytes = 0;
  int64_t mma = 0;                   // mma.m16n8k16 of a warp
  int64_t barriers = 0;              // sync_threads of a block
  std::vector<SiteCount> sites;      // by file, line, column
  std::vector<BufferCount> buffers;  // by address

  struct Traffic {
    int64_t bytes = 0, sectors = 0, sectors_needed = 0;
  };
  Traffic global_reads() const;  // asynchronous copies too
  Traffic global_writes() const;
  int64_t bank_conflicts() const;
  // Of the Buffer with this data(); zeros if the launch did not touch it.
  BufferCount buffer(const void* data) const;
  std::string text() const;  // a table, for people
};

class Session {
 public:
  explicit Session(const SessionOptions& options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const SessionOptions& options() const { return options_; }
  // Of the launches so far, in order. Only on the host executor, as report(): tests that count do not link with
  // a GPU's library.
  const std::vector<LaunchReport>& reports() const;
  // Of the one launch with this name; throws genesis::Error if there is none or several.
  const LaunchReport& report(const std::string& name) const;
  void add(LaunchReport report) { reports_.push_back(std::move(report)); }

 private:
  SessionOptions options_;
  std::vector<LaunchReport> reports_;
};

// Calls run(session) once in each order; on a GPU once directly and twice as a CUDA graph. What it computes
// must have the same bits each time.
template <class Run>
void in_all_orders(const Run& run, SessionOptions options = {}) {
  for (const Order order : {Order::forward, Order::reverse, Order::shuffled}) {
    options.order = order;
    Session session(options);
    run(session);
  }
}

}  // namespace genesis::simt
