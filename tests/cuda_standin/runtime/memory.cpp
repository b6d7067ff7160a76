// Memory and copies. CUDA Runtime API, "Memory Management" and "API synchronization behavior".
#include "kernels/simt/host/memory.h"

#include <cstdlib>
#include <cstring>

#include "kernels/common/error.h"
#include "tests/cuda_standin/runtime/runtime.h"

namespace genesis::standin {
namespace {

constexpr int kPoison = 0xff;  // NaN as a float, -1 as an integer

// The allocation that holds these bytes.
bool holds(const std::map<const void*, size_t>& allocations, const void* p, size_t bytes) {
  auto it = allocations.upper_bound(p);
  if (it == allocations.begin()) return false;
  --it;
  const size_t offset = size_t(static_cast<const char*>(p) - static_cast<const char*>(it->first));
  return offset <= it->second && bytes <= it->second - offset;
}

}  // namespace

cudaError_t Runtime::allocate(void** p, size_t bytes) {
  if (!p) return cudaErrorInvalidValue;
  if (refused_by_strict_capture()) return cudaErrorStreamCaptureUnsupported;
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > options_.memory - seen.held) return cudaErrorMemoryAllocation;
  *p = simt::host::global_memory().allocate(bytes, 0);
  device_[*p] = bytes;
  std::memset(device_bytes(*p, bytes, "cudaMalloc"), kPoison, bytes);
  seen.held += bytes;
  seen.most_held = std::max(seen.most_held, seen.held);
  ++seen.allocations;
  return cudaSuccess;
}

// "This API will perform implicit synchronization when the pointer was allocated with regular memory allocation API".
cudaError_t Runtime::free(void* p) {
  if (!p) return cudaSuccess;
  const auto it = device_.find(p);
  if (it == device_.end()) return cudaErrorInvalidValue;
  if (refused_by_capture()) return cudaErrorStreamCaptureUnsupported;
  if (const cudaError_t e = wait_for_all(); e != cudaSuccess) return e;
  seen.held -= it->second;
  simt::host::global_memory().release(p);
  device_.erase(it);
  return cudaSuccess;
}

cudaError_t Runtime::allocate_pinned(void** p, size_t bytes) {
  if (!p) return cudaErrorInvalidValue;
  if (refused_by_strict_capture()) return cudaErrorStreamCaptureUnsupported;
  constexpr size_t kPage = 4096;
  *p = std::aligned_alloc(kPage, (std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage);
  if (!*p) return cudaErrorMemoryAllocation;
  std::memset(*p, kPoison, bytes);
  pinned_[*p] = bytes;
  ++seen.allocations;
  return cudaSuccess;
}

cudaError_t Runtime::free_pinned(void* p) {
  if (!p) return cudaSuccess;
  if (pinned_.erase(p) == 0) return cudaErrorInvalidValue;
  std::free(p);
  return cudaSuccess;
}

bool Runtime::on_device(const void* p, size_t bytes) const { return holds(device_, p, bytes); }
bool Runtime::is_pinned(const void* p, size_t bytes) const { return holds(pinned_, p, bytes); }

unsigned char* Runtime::device_bytes(const void* p, size_t bytes, const char* what) const {
  check(on_device(p, bytes), std::string("out of bounds: ") + what + " touches " + std::to_string(bytes) +
                                 " bytes that are not, or no longer, in an allocation of device memory");
  return simt::host::global_memory().view(reinterpret_cast<uintptr_t>(p));
}

namespace {

void copy(Runtime& runtime, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const void* source = from;
  void* target = to;
  if (kind != cudaMemcpyHostToDevice) source = runtime.device_bytes(from, bytes, "a copy");
  if (kind != cudaMemcpyDeviceToHost) target = runtime.device_bytes(to, bytes, "a copy");
  std::memcpy(target, source, bytes);
  ++runtime.seen.copies;
}

// "The driver may synchronize with the stream and stage the copy into pinned memory", or copy on the spot; or the copy
// is asynchronous: "the function might be synchronous".
cudaError_t copy_pageable(Runtime& runtime, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                          cudaStream_t handle) {
  cudaStream_t stream = runtime.stream_of(handle);
  if (stream && stream->capture) {
    runtime.break_capture(*stream->capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  const bool waits = runtime.options().when != When::late && runtime.draw(2) == 0;
  if (stream && waits) {
    if (const cudaError_t e = runtime.wait_for(runtime.end_of(stream)); e != cudaSuccess) return e;
  }
  if (kind == cudaMemcpyHostToDevice && waits) {
    const auto* bytes_now = static_cast<const char*>(from);
    return runtime.enqueue(handle, "copy", [staged = std::vector(bytes_now, bytes_now + bytes), to] {
      copy(Runtime::get(), to, staged.data(), staged.size(), cudaMemcpyHostToDevice);
    });
  }
  const cudaError_t e = runtime.enqueue(handle, "copy", [=] { copy(Runtime::get(), to, from, bytes, kind); });
  return e == cudaSuccess && waits ? runtime.wait_for(runtime.end_of(stream)) : e;
}

cudaError_t copy_async(Runtime& runtime, void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                       cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  const bool to_device = kind == cudaMemcpyHostToDevice, to_host = kind == cudaMemcpyDeviceToHost;
  if (!to_device && !to_host && kind != cudaMemcpyDeviceToDevice) return cudaErrorInvalidMemcpyDirection;
  if (!to_device && !runtime.on_device(from, bytes)) return cudaErrorInvalidValue;
  if (!to_host && !runtime.on_device(to, bytes)) return cudaErrorInvalidValue;
  const void* host = to_device ? from : to;
  const bool pinned = runtime.is_pinned(host, bytes);
  // A copy to pageable memory whose wait is missing would come after the host has read, and perhaps given back, what it
  // writes. Pinned memory is there until its event was waited for.
  if (to_host && !pinned && runtime.makes(Mistake::no_stream_wait)) return cudaSuccess;
  if ((to_device || to_host) && runtime.on_device(host, 1)) return cudaErrorInvalidValue;
  if ((to_device || to_host) && !pinned) {
    return copy_pageable(runtime, to, from, bytes, kind, stream);
  }
  return runtime.enqueue(stream, "copy", [=] {
    Runtime& now = Runtime::get();
    const bool there = kind == cudaMemcpyDeviceToDevice || now.is_pinned(host, bytes);
    check(there, "a copy from or to pinned memory that was given back meanwhile");
    copy(now, to, from, bytes, kind);
  });
}

}  // namespace
}  // namespace genesis::standin

using namespace genesis::standin;

cudaError_t cudaMalloc(void** p, size_t bytes) {
  return call([&](Runtime& r) { return r.allocate(p, bytes); });
}
cudaError_t cudaFree(void* p) {
  return call([&](Runtime& r) { return r.free(p); });
}
cudaError_t cudaMallocHost(void** p, size_t bytes) {
  return call([&](Runtime& r) { return r.allocate_pinned(p, bytes); });
}
cudaError_t cudaFreeHost(void* p) {
  return call([&](Runtime& r) { return r.free_pinned(p); });
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return call([&](Runtime& r) {
    *total = r.options().memory;
    *free = r.options().memory - r.seen.held;
    return cudaSuccess;
  });
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return call([&](Runtime& r) { return copy_async(r, to, from, bytes, kind, stream); });
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  return call([&](Runtime& r) {
    if (bytes > 0 && !r.on_device(p, bytes)) return cudaErrorInvalidValue;
    return r.enqueue(stream, "memset", [=] {
      if (bytes > 0) std::memset(Runtime::get().device_bytes(p, bytes, "a memset"), value, bytes);
    });
  });
}
