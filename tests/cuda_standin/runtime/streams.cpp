// Streams, events and the device. CUDA Runtime API, "Stream Management", "Event Management", "Device Management".
#include <cstring>
#include <utility>

#include "tests/cuda_standin/runtime/runtime.h"

using namespace genesis::standin;

namespace {

cudaError_t wait_for_event(Runtime& r, cudaStream_t handle, cudaEvent_t event) {
  cudaStream_t stream = r.stream_of(handle);
  if (!stream || !r.events.contains(event)) return cudaErrorInvalidResourceHandle;
  if (event->capture) {
    if (event->capture->broken) return cudaErrorStreamCaptureInvalidated;
    if (stream->capture && stream->capture != event->capture) {
      r.break_capture(*stream->capture);
      r.break_capture(*event->capture);
      return cudaErrorStreamCaptureMerge;
    }
    stream->capture = event->capture;  // joins it
    stream->tail.insert(stream->tail.end(), event->tail.begin(), event->tail.end());
    return cudaSuccess;
  }
  if (stream->capture) {  // on work outside the graph
    if (!event->mark) return cudaSuccess;
    r.break_capture(*stream->capture);
    return cudaErrorStreamCaptureIsolation;
  }
  if (!event->mark) return cudaSuccess;  // "has no effect" for an event never recorded
  return r.enqueue(stream, Item(std::make_shared<const Nodes>(), {event->mark}));
}

cudaError_t record(Runtime& r, cudaEvent_t event, cudaStream_t handle) {
  cudaStream_t stream = r.stream_of(handle);
  if (!stream || !r.events.contains(event)) return cudaErrorInvalidResourceHandle;
  event->capture = stream->capture;
  event->tail = stream->tail;
  event->mark = nullptr;
  if (stream->capture) return stream->capture->broken ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
  Item item(std::make_shared<const Nodes>());
  event->mark = item.done;
  return r.enqueue(stream, std::move(item));
}

// Asking for a captured event breaks the capture.
cudaError_t ask(Runtime& r, cudaEvent_t event, bool wait) {
  if (!r.events.contains(event)) return cudaErrorInvalidResourceHandle;
  if (event->capture) {
    r.break_capture(*event->capture);
    return cudaErrorCapturedEvent;
  }
  if (wait) return r.wait_for(event->mark);
  return !event->mark || event->mark->reached ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t synchronize(Runtime& r, cudaStream_t handle) {
  cudaStream_t stream = r.stream_of(handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->capture) {
    r.break_capture(*stream->capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  return r.wait_for(r.end_of(stream));
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call([&](Runtime& r) {
    // A blocking stream would take turns with the legacy one, which there is none of here.
    if (!stream || flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    *stream = *r.streams.insert(new CUstream_st).first;
    return cudaSuccess;
  });
}

// "In case the device is still doing work in the stream, the function will return immediately and the resources will be
// released automatically once the device has completed all work."
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call([&](Runtime& r) {
    if (!r.streams.contains(stream)) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t e = r.wait_for(r.end_of(stream)); e != cudaSuccess) return e;
    r.streams.erase(stream);
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call(
      [&](Runtime& r) { return r.makes(Mistake::no_stream_wait) ? cudaSuccess : synchronize(r, stream); });
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return call([&](Runtime& r) { return wait_for_event(r, stream, event); });
}
cudaError_t cudaDeviceSynchronize() {
  return call([](Runtime& r) {
    if (r.refused_by_capture()) return cudaErrorStreamCaptureUnsupported;
    return r.wait_for_all();
  });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return call([&](Runtime& r) {
    if (!event) return cudaErrorInvalidValue;
    *event = *r.events.insert(new CUevent_st).first;
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call([&](Runtime& r) {
    if (r.events.erase(event) == 0) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call(
      [&](Runtime& r) { return r.makes(Mistake::no_event_record) ? cudaSuccess : record(r, event, stream); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call(
      [&](Runtime& r) { return r.makes(Mistake::no_event_wait) ? cudaSuccess : ask(r, event, true); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call([&](Runtime& r) { return ask(r, event, false); });
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return cudaErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "stand-in");
  properties->totalGlobalMem = Runtime::get().options().memory;
  properties->major = 8;
  properties->minor = 9;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  Runtime& r = Runtime::get();
  const std::lock_guard lock(r.mutex);
  if (r.error != cudaSuccess) return r.error;
  return std::exchange(r.last_error, cudaSuccess);
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidMemcpyDirection:
      return "invalid copy direction for memcpy";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorInvalidResourceHandle:
      return "invalid resource handle";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorMisalignedAddress:
      return "misaligned address";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorStreamCaptureMerge:
      return "operation would result in a merge of separate capture sequences";
    case cudaErrorStreamCaptureUnmatched:
      return "capture was not initiated in this stream";
    case cudaErrorStreamCaptureUnjoined:
      return "capturing stream has unjoined work";
    case cudaErrorStreamCaptureIsolation:
      return "dependency created on uncaptured work in another stream";
    case cudaErrorStreamCaptureImplicit:
      return "operation would make the legacy stream depend on a capturing blocking stream";
    case cudaErrorCapturedEvent:
      return "operation not permitted on an event last recorded in a capturing stream";
    default:
      return "unknown error";
  }
}
