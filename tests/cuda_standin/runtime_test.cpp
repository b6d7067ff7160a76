// The stand-in of the CUDA runtime: it must find what a GPU would not forgive, and allow what it would.
#include <cuda_runtime_api.h>

#include <cstring>
#include <set>
#include <vector>

#include "kernels/elementwise/elementwise.h"
#include "tests/cuda_standin/standin.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;
using standin::When;

namespace {

constexpr int kN = 64;

float* device_floats(int n = kN) {
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, size_t(n) * sizeof(float)) == cudaSuccess);
  return static_cast<float*>(p);
}

float* pinned_floats(float value) {
  void* p = nullptr;
  REQUIRE(cudaMallocHost(&p, kN * sizeof(float)) == cudaSuccess);
  for (int i = 0; i < kN; ++i) static_cast<float*>(p)[i] = value;
  return static_cast<float*>(p);
}

cudaStream_t new_stream() {
  cudaStream_t s = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  return s;
}

cudaEvent_t new_event() {
  cudaEvent_t e = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&e, cudaEventDisableTiming) == cudaSuccess);
  return e;
}

cudaError_t to_device(float* to, const float* from, cudaStream_t s) {
  return cudaMemcpyAsync(to, from, kN * sizeof(float), cudaMemcpyHostToDevice, s);
}
cudaError_t to_host(float* to, const float* from, cudaStream_t s) {
  return cudaMemcpyAsync(to, from, kN * sizeof(float), cudaMemcpyDeviceToHost, s);
}
// y += y
void twice(float* y, cudaStream_t s, int n = kN) {
  cuda::add(Add{.n = n, .dtype = DType::f32, .a = y, .b = y, .y = y}, Stream{s});
}

// 1 is copied in by one stream, doubled by another that may wait for it, and copied out.
float copied_and_doubled(uint64_t seed, bool with_event) {
  standin::reset({.seed = seed});
  const cudaStream_t copies = new_stream(), computes = new_stream();
  const cudaEvent_t arrived = new_event();
  float *x = device_floats(), *host = pinned_floats(1.f);
  REQUIRE(to_device(x, host, copies) == cudaSuccess);
  REQUIRE(cudaEventRecord(arrived, copies) == cudaSuccess);
  if (with_event) REQUIRE(cudaStreamWaitEvent(computes, arrived, 0) == cudaSuccess);
  twice(x, computes);
  float* back = pinned_floats(0.f);
  REQUIRE(to_host(back, x, computes) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(computes) == cudaSuccess);
  return back[0];
}

}  // namespace

TEST_CASE("CUDA stand-in: an event orders two streams, and without it no order holds") {
  std::set<std::string> seen;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CHECK(copied_and_doubled(seed, true) == 2.f);
    seen.insert(std::to_string(copied_and_doubled(seed, false)));
  }
  CHECK(seen.size() > 1);
}

TEST_CASE("CUDA stand-in: a pinned copy reads and writes late, so that a missing wait is seen") {
  standin::reset({.when = When::late});
  const cudaStream_t s = new_stream();
  float *x = device_floats(), *host = pinned_floats(1.f);
  REQUIRE(to_device(x, host, s) == cudaSuccess);
  host[0] = 5;  // too early
  float* back = pinned_floats(0.f);
  REQUIRE(to_host(back, x, s) == cudaSuccess);
  CHECK(back[0] == 0);  // too early
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(back[0] == 5);
  CHECK(back[1] == 1);
}

TEST_CASE("CUDA stand-in: a launch takes its arguments by value") {
  standin::reset({.when = When::late});
  const cudaStream_t s = new_stream();
  float *x = device_floats(), *host = pinned_floats(3.f);
  REQUIRE(to_device(x, host, s) == cudaSuccess);
  {
    Add add{.n = kN, .dtype = DType::f32, .a = x, .b = x, .y = x};
    cuda::add(add, Stream{s});
    add = {};
  }
  CHECK(standin::seen().launches == 0);
  REQUIRE(to_host(host, x, s) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(host[kN - 1] == 6);
  CHECK(standin::seen().launches == 1);
}

TEST_CASE("CUDA stand-in: memory is poisoned at first, counted, and limited") {
  standin::reset({.memory = 1 << 20});
  float *x = device_floats(), *back = pinned_floats(0.f);
  REQUIRE(to_host(back, x, cudaStreamPerThread) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess);
  CHECK(back[0] != back[0]);
  CHECK(standin::seen().held == kN * sizeof(float));
  void* p = nullptr;
  CHECK(cudaMalloc(&p, size_t(1) << 20) == cudaErrorMemoryAllocation);
  size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK((total == 1 << 20 && free == total - kN * sizeof(float)));
  REQUIRE(cudaFree(x) == cudaSuccess);
  CHECK(cudaFree(x) == cudaErrorInvalidValue);
  CHECK(standin::seen().held == 0);
  CHECK(standin::seen().most_held == kN * sizeof(float));
}

TEST_CASE("CUDA stand-in: use after free is an illegal access, which no call gets past") {
  standin::reset();
  const cudaStream_t s = new_stream();
  float* x = device_floats();
  REQUIRE(cudaFree(x) == cudaSuccess);
  CHECK(to_host(pinned_floats(0.f), x, s) == cudaErrorInvalidValue);
  twice(x, s);
  CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
  CHECK(lacks(standin::fault(), "not in device memory") == "");
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 4) == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
}

TEST_CASE("CUDA stand-in: a capture records, and a graph replays") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    standin::reset({.seed = seed});
    const cudaStream_t s = new_stream(), side = new_stream();
    const cudaEvent_t fork = new_event(), join = new_event();
    float *x = device_floats(), *y = device_floats(), *host = pinned_floats(1.f);
    REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal) == cudaSuccess);
    REQUIRE(to_device(x, host, s) == cudaSuccess);
    REQUIRE(cudaEventRecord(fork, s) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(side, fork, 0) == cudaSuccess);
    REQUIRE(to_device(y, host, side) == cudaSuccess);
    REQUIRE(cudaEventRecord(join, side) == cudaSuccess);
    twice(x, s);
    REQUIRE(cudaStreamWaitEvent(s, join, 0) == cudaSuccess);
    cuda::add(Add{.n = kN, .dtype = DType::f32, .a = x, .b = y, .y = x}, Stream{s});
    REQUIRE(to_host(host, x, s) == cudaSuccess);
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(s, &graph) == cudaSuccess);
    cudaGraphExec_t executable = nullptr;
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(standin::seen().copies == 0);
    for (const float expected : {3.f, 9.f, 27.f}) {  // 2 x + x, of what the last one left
      REQUIRE(cudaGraphLaunch(executable, s) == cudaSuccess);
      REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
      CHECK(host[0] == expected);
    }
    REQUIRE(cudaFree(y) == cudaSuccess);  // the graph still names it
    REQUIRE(cudaGraphLaunch(executable, s) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
  }
}

TEST_CASE("CUDA stand-in: calls that are illegal under capture fail and break it") {
  standin::reset();
  const cudaStream_t s = new_stream(), other = new_stream();
  const cudaEvent_t event = new_event(), outside = new_event();
  float* x = device_floats();
  void* p = nullptr;
  const auto captured = [&](auto illegal, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    REQUIRE(cudaStreamBeginCapture(s, mode) == cudaSuccess);
    REQUIRE(cudaEventRecord(event, s) == cudaSuccess);
    const cudaError_t e = illegal();
    cudaGraph_t graph = nullptr;
    const cudaError_t end = cudaStreamEndCapture(s, &graph);
    CHECK(end == (e == cudaSuccess ? cudaSuccess : cudaErrorStreamCaptureInvalidated));
    CHECK((graph != nullptr) == (end == cudaSuccess));
    return e;
  };
  CHECK(captured([&] { return cudaStreamSynchronize(s); }) == cudaErrorStreamCaptureUnsupported);
  CHECK(captured([&] { return cudaDeviceSynchronize(); }) == cudaErrorStreamCaptureUnsupported);
  CHECK(captured([&] { return cudaEventSynchronize(event); }) == cudaErrorCapturedEvent);
  CHECK(captured([&] { return cudaEventQuery(event); }) == cudaErrorCapturedEvent);
  CHECK(captured([&] { return cudaMalloc(&p, 4); }) == cudaErrorStreamCaptureUnsupported);
  CHECK(captured([&] { return cudaMalloc(&p, 4); }, cudaStreamCaptureModeRelaxed) == cudaSuccess);
  CHECK(captured([&] { return cudaFree(x); }) == cudaErrorStreamCaptureUnsupported);
  CHECK(captured([&] { return cudaMemsetAsync(x, 0, 4, nullptr); }) == cudaErrorStreamCaptureImplicit);
  REQUIRE(cudaEventRecord(outside, other) == cudaSuccess);
  CHECK(captured([&] { return cudaStreamWaitEvent(s, outside, 0); }) == cudaErrorStreamCaptureIsolation);
  CHECK(captured([] { return cudaSuccess; }) == cudaSuccess);
  // Work that nobody waited for.
  REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal) == cudaSuccess);
  REQUIRE(cudaEventRecord(event, s) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other, event, 0) == cudaSuccess);
  REQUIRE(cudaMemsetAsync(x, 0, 4, other) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureUnjoined);
}

TEST_CASE("CUDA stand-in: the legacy stream and handles that are none are refused") {
  standin::reset();
  float* x = device_floats();
  CHECK(cudaMemsetAsync(x, 0, 4, nullptr) == cudaErrorInvalidResourceHandle);
  cudaStream_t s = new_stream();
  REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
  CHECK(cudaMemsetAsync(x, 0, 4, s) == cudaErrorInvalidResourceHandle);
  CHECK(lacks(message_of([&] { twice(x, s); }), "invalid resource handle") == "");
}
