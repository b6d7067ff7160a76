#include "tests/cuda_standin/runtime/runtime.h"

#include <algorithm>

#include "kernels/common/cuda.h"
#include "kernels/simt/host/memory.h"
#include "tests/cuda_standin/runtime/launches.h"

namespace genesis::standin {
namespace {

void take_launch(const char* name, std::function<void(uint64_t seed)> run, Stream stream) {
  const cudaError_t e = call([&](Runtime& runtime) {
    return runtime.enqueue(cuda_stream(stream), name, [run = std::move(run)] {
      Runtime& now = Runtime::get();
      run(now.draw(1u << 31));
      ++now.seen.launches;
    });
  });
  check_cuda(e, "launch of", name);
}

std::shared_ptr<const Nodes> one_node(std::string name, std::function<void()> work) {
  return std::make_shared<const Nodes>(Nodes{{std::move(name), std::move(work), {}}});
}

bool all_reached(const std::vector<MarkPtr>& marks) {
  return std::all_of(marks.begin(), marks.end(), [](const MarkPtr& m) { return m->reached; });
}

}  // namespace

Runtime::Runtime() {
  simt::host::global_memory().keep_closed();
  take_launches(take_launch);
  reset({});
}

Runtime& Runtime::get() {
  static Runtime runtime;
  return runtime;
}

void Runtime::reset(const Options& options) {
  for (const auto& [p, bytes] : device_) simt::host::global_memory().release(const_cast<void*>(p));
  device_.clear();
  pinned_.clear();  // the host may still hold it: it is memory like any other from here on
  const auto destroy = [](auto& handles) {
    for (auto* handle : handles) delete handle;
    handles.clear();
  };
  destroy(streams);
  destroy(events);
  destroy(graphs);
  destroy(executables);
  per_thread_ = {};
  options_ = options;
  random_.seed(options.seed);
  seen = {};
  fault.clear();
  error = last_error = cudaSuccess;
}

cudaStream_t Runtime::stream_of(cudaStream_t handle) {
  if (handle == cudaStreamPerThread) return &per_thread_;
  return streams.contains(handle) ? handle : nullptr;
}

cudaError_t Runtime::enqueue(cudaStream_t handle, std::string name, std::function<void()> work) {
  cudaStream_t stream = stream_of(handle);
  if (!stream) {
    // The legacy stream would be captured implicitly, which no capture survives.
    if (refused_by_strict_capture()) return cudaErrorStreamCaptureImplicit;
    return cudaErrorInvalidResourceHandle;
  }
  if (!stream->capture) return enqueue(stream, Item(one_node(std::move(name), std::move(work))));
  Capture& capture = *stream->capture;
  if (capture.broken) return cudaErrorStreamCaptureInvalidated;
  capture.nodes.push_back({std::move(name), std::move(work), stream->tail});
  stream->tail = {capture.nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t Runtime::enqueue(cudaStream_t stream, Item item) {
  stream->queue.push_back(std::move(item));
  return cudaSuccess;
}

MarkPtr Runtime::end_of(cudaStream_t stream) {
  return stream->queue.empty() ? nullptr : stream->queue.back().done;
}

bool Runtime::run_one() {
  struct Ready {
    cudaStream_t stream;
    size_t node;
  };
  std::vector<Ready> ready;
  const auto look = [&](cudaStream_t stream) {
    if (stream->queue.empty()) return;
    const Item& item = stream->queue.front();
    if (!all_reached(item.after)) return;
    if (item.left == 0) ready.push_back({stream, 0});
    for (size_t i = 0; i < item.ran.size(); ++i) {
      const auto& after = (*item.nodes)[i].after;
      const auto done = [&](size_t n) { return bool(item.ran[n]); };
      if (!item.ran[i] && std::all_of(after.begin(), after.end(), done)) ready.push_back({stream, i});
    }
  };
  look(&per_thread_);
  for (cudaStream_t stream : streams) look(stream);
  if (ready.empty()) return false;
  const Ready& next = ready[draw(ready.size())];
  Item& item = next.stream->queue.front();
  if (item.left > 0) {
    const Node& node = (*item.nodes)[next.node];
    try {
      node.work();
    } catch (const std::exception& e) {
      fail(node.name + ": " + e.what());
      return false;
    }
    item.ran[next.node] = true;
    --item.left;
  }
  if (item.left == 0) {
    item.done->reached = true;
    next.stream->queue.pop_front();
  }
  return true;
}

// As on a GPU: whatever came after is lost, and every call says so from now on.
void Runtime::fail(const std::string& what) {
  fault = what;
  const auto says = [&](const char* text) { return what.find(text) != std::string::npos; };
  error = says("misaligned")      ? cudaErrorMisalignedAddress
          : says("out of bounds") ? cudaErrorIllegalAddress
                                  : cudaErrorLaunchFailure;
  per_thread_.queue.clear();
  for (cudaStream_t stream : streams) stream->queue.clear();
}

cudaError_t Runtime::wait_for(const MarkPtr& mark) {
  ++seen.waits;
  while (mark && !mark->reached) {
    if (!run_one()) return error == cudaSuccess ? cudaErrorUnknown : error;
  }
  return cudaSuccess;
}

cudaError_t Runtime::wait_for_all() {
  ++seen.waits;
  while (run_one()) {
  }
  return error;
}

void Runtime::run_some() {
  if (options_.when == When::late) return;
  const uint64_t most = options_.when == When::mixed ? draw(2) * draw(3) : ~uint64_t(0);
  for (uint64_t i = 0; i < most && run_one(); ++i) {
  }
}

template <class Refuses>
bool Runtime::refused(const Refuses& refuses) {
  bool any = false;
  const auto look = [&](CUstream_st& stream) {
    if (!stream.capture || !refuses(*stream.capture)) return;
    stream.capture->broken = true;
    any = true;
  };
  look(per_thread_);
  for (cudaStream_t stream : streams) look(*stream);
  return any;
}

bool Runtime::refused_by_capture() {
  return refused([](const Capture&) { return true; });
}

bool Runtime::refused_by_strict_capture() {
  return refused([](const Capture& c) { return c.mode != cudaStreamCaptureModeRelaxed; });
}

void reset(const Options& options) {
  Runtime& runtime = Runtime::get();
  const std::lock_guard lock(runtime.mutex);
  runtime.reset(options);
}

Seen seen() {
  Runtime& runtime = Runtime::get();
  const std::lock_guard lock(runtime.mutex);
  return runtime.seen;
}

std::string fault() {
  Runtime& runtime = Runtime::get();
  const std::lock_guard lock(runtime.mutex);
  return runtime.fault;
}

}  // namespace genesis::standin
