#include "apps/device.h"

#include "kernels/common/available_cpus.h"
#include "kernels/common/parallel.h"
#include "tests/support/catch.h"

using namespace genesis;

TEST_CASE("a device takes as many threads as the config says, and never more than there are CPUs") {
  const int before = thread_count(), all = available_cpus();
  Config::Device config;
  CHECK(open_device(config)->kind() == DeviceKind::cpu);
  CHECK(thread_count() == before);
  config.threads = 1;
  open_device(config);
  CHECK(thread_count() == 1);
  CHECK(in_words(*make_cpu_device(), config) == "1 thread");
  for (const int more : {1, 4096 - all}) {
    config.threads = all + more;
    open_device(config);
    CHECK(thread_count() == all);
    const std::string words = in_words(*make_cpu_device(), config);
    INFO(words);
    CHECK(words.starts_with(std::to_string(all) + " thread"));
    CHECK(words.find("device.threads is " + std::to_string(config.threads)) != std::string::npos);
  }
  set_thread_count(before);
}
