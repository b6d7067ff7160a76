// The CUDA device on the stand-ins of CUDA's libraries.
#include "engine/device/device.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/cuda_standin/standin.h"
#include "tests/support/catch.h"
#include "tests/support/message_of.h"

using namespace genesis;
using standin::When;

TEST_CASE("CUDA device: memory is zero, counted to the byte, and refused beyond what there is") {
  standin::reset({.memory = size_t(64) << 20});
  const std::unique_ptr<Device> device = make_cuda_device();
  CHECK(device->kind() == DeviceKind::cuda);
  CHECK(device->name() == "stand-in");
  CHECK(device->total_memory() == size_t(64) << 20);
  CHECK(standin::seen().held == 0);
  {
    DeviceBuffer buffer(*device, 1001);
    CHECK(standin::seen().held == 1001);
    std::vector<char> back(1001, 'x');
    device->copy_out(back.data(), buffer.data(), back.size());
    CHECK(std::all_of(back.begin(), back.end(), [](char c) { return c == 0; }));
    CHECK(message_of([&] { device->allocate(size_t(64) << 20); }) ==
          "not enough memory: 64.0 MiB wanted in one piece, stand-in has 64.0 MiB free of 64.0");
    DeviceBuffer another(*device, 10);  // a refusal spoils nothing
  }
  CHECK(standin::seen().held == 0);
}

// The source is changed as soon as copy_in has returned, and the copies are more and larger than the ring.
TEST_CASE("CUDA device: a copy in may change its source when it returns, however late it runs") {
  for (const When when : {When::late, When::mixed, When::at_once}) {
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      standin::reset({.seed = seed, .when = when});
      const std::unique_ptr<Device> device = make_cuda_device();
      constexpr int kSmall = 100;
      DeviceBuffer small(*device, kSmall * sizeof(int)), large(*device, size_t(17 << 20) + 12);
      std::vector<char> bytes(large.bytes());
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = char(i * 7 >> 3);
      const std::vector<char> expected = bytes;
      for (int i = 0; i < kSmall; ++i) {
        device->copy_in(static_cast<int*>(small.data()) + i, &i, sizeof i);
        if (i == kSmall / 2) device->copy_in(large.data(), bytes.data(), bytes.size());
      }
      std::fill(bytes.begin(), bytes.end(), 'x');
      device->copy_out(bytes.data(), large.data(), bytes.size());
      CHECK(bytes == expected);
      std::vector<int> back(kSmall), numbers(kSmall);
      std::iota(numbers.begin(), numbers.end(), 0);
      device->copy_out(back.data(), small.data(), small.bytes());
      CHECK(back == numbers);
    }
  }
}
