// The devices that tests run on: the CPU and, in a build with CUDA, what the program is linked to, the stand-ins of
// CUDA's libraries or a GPU.
#pragma once

#include <memory>
#include <vector>

#include "engine/device/device.h"

namespace genesis {

struct TestDevice {
  const char* name;
  std::unique_ptr<Device> (*make)();
};

inline std::vector<TestDevice> test_devices() {
  std::vector<TestDevice> devices = {{"CPU", make_cpu_device}};
  if (why_no_cuda_device().empty()) devices.push_back({"CUDA", make_cuda_device});
  return devices;
}

}  // namespace genesis
