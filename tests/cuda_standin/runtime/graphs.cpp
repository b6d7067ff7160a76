// Capture and graphs. CUDA C++ Programming Guide, "Creating a Graph Using Stream Capture"; Runtime API, "Stream
// Management" and "Graph Management".
#include "tests/cuda_standin/runtime/runtime.h"

using namespace genesis::standin;

namespace {

cudaError_t begin_capture(Runtime& r, cudaStream_t handle, cudaStreamCaptureMode mode) {
  cudaStream_t stream = r.stream_of(handle);
  if (!stream)
    return cudaErrorStreamCaptureUnsupported;  // "must not be initiated on the legacy default stream"
  if (stream->capture) return cudaErrorIllegalState;
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->mode = mode;
  return cudaSuccess;
}

// Whether the origin has waited for everything: no node but its own tail is nobody's predecessor.
bool is_joined(const Capture& capture, const std::vector<size_t>& tail) {
  std::vector<bool> followed(capture.nodes.size());
  for (size_t i : tail) followed[i] = true;
  for (const Node& node : capture.nodes) {
    for (size_t i : node.after) followed[i] = true;
  }
  for (const bool f : followed) {
    if (!f) return false;
  }
  return true;
}

cudaError_t end_capture(Runtime& r, cudaStream_t handle, cudaGraph_t* graph) {
  cudaStream_t stream = r.stream_of(handle);
  if (!stream || !graph) return cudaErrorInvalidValue;
  *graph = nullptr;
  const CapturePtr capture = stream->capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != stream) {
    r.break_capture(*capture);
    return cudaErrorStreamCaptureUnmatched;
  }
  const bool joined = is_joined(*capture, stream->tail);
  const auto leave = [&](CUstream_st& s) {
    if (s.capture != capture) return;
    s.capture = nullptr;
    s.tail.clear();
  };
  for (cudaStream_t s : r.streams) leave(*s);
  leave(*stream);
  for (cudaEvent_t event : r.events) {
    if (event->capture == capture) event->capture = nullptr;
  }
  if (capture->broken) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = *r.graphs.insert(new CUgraph_st{std::move(capture->nodes)}).first;
  return cudaSuccess;
}

cudaError_t launch(Runtime& r, cudaGraphExec_t executable, cudaStream_t handle) {
  cudaStream_t stream = r.stream_of(handle);
  if (!stream || !r.executables.contains(executable)) return cudaErrorInvalidResourceHandle;
  if (stream->capture) {  // a graph inside a graph, which nobody has needed
    r.break_capture(*stream->capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  Item item(executable->nodes);
  if (executable->last) item.after.push_back(executable->last);
  executable->last = item.done;
  ++r.seen.graph_launches;
  return r.enqueue(stream, std::move(item));
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call([&](Runtime& r) { return begin_capture(r, stream, mode); });
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call([&](Runtime& r) { return end_capture(r, stream, graph); });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return call([&](Runtime& r) {
    if (!executable || !r.graphs.contains(graph)) return cudaErrorInvalidValue;
    if (r.refused_by_strict_capture()) return cudaErrorStreamCaptureUnsupported;
    auto* made = new CUgraphExec_st{std::make_shared<const Nodes>(graph->nodes), nullptr};
    *executable = *r.executables.insert(made).first;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([&](Runtime& r) { return launch(r, executable, stream); });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&](Runtime& r) {
    if (r.graphs.erase(graph) == 0) return cudaErrorInvalidValue;
    delete graph;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call([&](Runtime& r) {
    if (r.executables.erase(executable) == 0) return cudaErrorInvalidValue;
    delete executable;
    return cudaSuccess;
  });
}
