// In the place of cuda_device.cpp where there is no CUDA to build with.
#include "engine/device/device.h"

namespace genesis {

std::string why_no_cuda_device() {
  return "this build has no CUDA: build it where nvcc is found, without -DGENESIS_CUDA=OFF";
}

std::unique_ptr<Device> make_cuda_device(const CudaOptions&) { throw Error(why_no_cuda_device()); }

}  // namespace genesis
