// The stand-in of the CUDA runtime, inside: streams as queues of work that is run one piece at a time, on the thread
// that waits for it, in an order that a seed draws among all that streams, events and graphs allow.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/cuda_standin/standin.h"

namespace genesis::standin {

struct Node {
  std::string name;
  std::function<void()> work;
  std::vector<size_t> after;  // nodes of the same graph
};
using Nodes = std::vector<Node>;

// A place in a stream that is reached once all before it has run.
struct Mark {
  bool reached = false;
};
using MarkPtr = std::shared_ptr<Mark>;

// What stands in a stream: a graph that was launched, one piece of work, or nothing but what it waits for.
struct Item {
  std::shared_ptr<const Nodes> nodes;
  std::vector<MarkPtr> after;
  MarkPtr done = std::make_shared<Mark>();
  std::vector<bool> ran;
  size_t left = 0;

  explicit Item(std::shared_ptr<const Nodes> n, std::vector<MarkPtr> a = {})
      : nodes(std::move(n)), after(std::move(a)), ran(nodes->size()), left(nodes->size()) {}
};

// Streams being captured together: the one that began, and those that waited for its events.
struct Capture {
  cudaStream_t origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  Nodes nodes;
  bool broken = false;  // by a call that is illegal meanwhile
};
using CapturePtr = std::shared_ptr<Capture>;

}  // namespace genesis::standin

// CUDA's handles point to these.
struct CUstream_st {
  std::deque<genesis::standin::Item> queue;
  genesis::standin::CapturePtr capture;
  std::vector<size_t> tail;  // nodes of the capture that the next one comes after
};
struct CUevent_st {
  genesis::standin::MarkPtr mark;        // of the last record; null: none
  genesis::standin::CapturePtr capture;  // that the last record is part of
  std::vector<size_t> tail;
};
struct CUgraph_st {
  genesis::standin::Nodes nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const genesis::standin::Nodes> nodes;
  genesis::standin::MarkPtr last;  // launch: a graph runs once at a time
};

namespace genesis::standin {

class Runtime {
 public:
  static Runtime& get();  // locked: see call()
  void reset(const Options& options);

  // Streams. Null for a handle that is none, the legacy stream's among them.
  cudaStream_t stream_of(cudaStream_t handle);
  // Puts work in a stream, or in the graph that it is captured into.
  cudaError_t enqueue(cudaStream_t handle, std::string name, std::function<void()> work);
  cudaError_t enqueue(cudaStream_t stream, Item item);
  // Runs what there is, in some order, until the mark is reached.
  cudaError_t wait_for(const MarkPtr& mark);
  cudaError_t wait_for_all();
  MarkPtr end_of(cudaStream_t stream);  // null: nothing is under way
  void run_some();                      // as much as happens to run between two calls

  // A call that is illegal while streams are captured: breaks those captures. True: it is refused.
  bool refused_by_capture();
  // The same for calls that a capture in relaxed mode allows.
  bool refused_by_strict_capture();
  void break_capture(Capture& capture) { capture.broken = true; }

  cudaError_t allocate(void** p, size_t bytes);
  cudaError_t free(void* p);
  cudaError_t allocate_pinned(void** p, size_t bytes);
  cudaError_t free_pinned(void* p);
  bool on_device(const void* p, size_t bytes) const;
  bool is_pinned(const void* p, size_t bytes) const;
  // The bytes at an address of device memory. Throws Error unless all of them are there.
  unsigned char* device_bytes(const void* p, size_t bytes, const char* what) const;

  uint64_t draw(uint64_t below) { return random_() % below; }
  const Options& options() const { return options_; }
  bool makes(Mistake mistake) const { return options_.mistake == mistake; }

  std::mutex mutex;
  Seen seen;
  std::string fault;
  cudaError_t error = cudaSuccess;  // that no call gets past
  cudaError_t last_error = cudaSuccess;
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> executables;

 private:
  Runtime();
  bool run_one();
  void fail(const std::string& what);
  template <class Refuses>
  bool refused(const Refuses& refuses);

  Options options_;
  std::mt19937_64 random_;
  CUstream_st per_thread_;
  std::map<const void*, size_t> device_, pinned_;  // allocations and their bytes
};

// Every call of CUDA's: one at a time, refused once work has failed, and work may run before it.
template <class Body>
cudaError_t call(const Body& body) {
  Runtime& runtime = Runtime::get();
  const std::lock_guard lock(runtime.mutex);
  if (runtime.error == cudaSuccess) runtime.run_some();
  if (runtime.error != cudaSuccess) return runtime.error;
  const cudaError_t e = body(runtime);
  if (e != cudaSuccess) runtime.last_error = e;
  return e;
}

}  // namespace genesis::standin
