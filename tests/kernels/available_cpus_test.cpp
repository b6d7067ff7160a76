#include "kernels/common/available_cpus.h"

#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/catch.h"

using namespace genesis;

namespace {

const std::string kVersion2 =
    "30 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup rw,nsdelegate\n";
const std::string kVersion1 =
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n";

// A machine's /proc and /sys, as much of them as is looked at.
class Root {
 public:
  Root() : path_(mkdtemp(std::string("/tmp/genesis_test_XXXXXX").data())) {}
  Root(const std::string& mounts, const std::string& cgroup) : Root() {
    put("proc/self/mountinfo", "22 1 254:0 / / rw - ext4 /dev/root rw\n" + mounts);
    put("proc/self/cgroup", cgroup);
  }
  ~Root() { std::filesystem::remove_all(path_); }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  void put(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file) << text;
  }
  int cpus() const { return available_cpus(path_); }

 private:
  std::filesystem::path path_;
};

int affinity() {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  return CPU_COUNT(&set);
}

}  // namespace

TEST_CASE("available_cpus: without a quota, those that the process may run on") {
  CHECK(Root().cpus() == affinity());  // no /proc at all
  Root none(kVersion2, "0::/user.slice\n");
  none.put("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n");
  CHECK(none.cpus() == affinity());
  Root old(kVersion1, "4:cpu,cpuacct:/\n");
  old.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  old.put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  CHECK(old.cpus() == affinity());
  for (const char* damaged : {"", "max", "x y", "-5 100000", "100000 0", "100000"}) {
    INFO(damaged);
    none.put("sys/fs/cgroup/user.slice/cpu.max", damaged);
    CHECK(none.cpus() == affinity());
  }
}

TEST_CASE("available_cpus: an affinity of one CPU is one") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const int found = available_cpus();
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  CHECK(found == 1);
}

TEST_CASE("available_cpus: the least quota of a cgroup and those above it, rounded up") {
  Root root(kVersion2, "0::/machine/one\n");
  root.put("sys/fs/cgroup/machine/one/cpu.max", "100000 100000\n");
  CHECK(root.cpus() == 1);
  root.put("sys/fs/cgroup/machine/one/cpu.max", "1000 100000\n");
  CHECK(root.cpus() == 1);
  root.put("sys/fs/cgroup/machine/one/cpu.max", "150000 100000\n");
  CHECK(root.cpus() == std::min(2, affinity()));
  root.put("sys/fs/cgroup/machine/cpu.max", "50000 100000\n");
  CHECK(root.cpus() == 1);
  root.put("sys/fs/cgroup/machine/one/cpu.max", "100000000 100000\n");
  root.put("sys/fs/cgroup/machine/cpu.max", "max 100000\n");
  CHECK(root.cpus() == affinity());
}

TEST_CASE("available_cpus: in a container, whose cgroup is the one that is mounted") {
  // With a namespace of its own the path is /; without, it is the host's, and the mount shows the end of it.
  Root own(kVersion2, "0::/\n");
  own.put("sys/fs/cgroup/cpu.max", "100000 100000\n");
  CHECK(own.cpus() == 1);
  for (const char* mounted : {"/docker/abc", "/elsewhere"}) {
    Root host(std::string("33 31 0:30 ") + mounted + " /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
              "5:cpuset:/\n4:cpu,cpuacct:/docker/abc\n0::/\n");
    host.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    host.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(host.cpus() == 1);
  }
  // Both versions mounted, as systemd does between the two.
  Root hybrid(kVersion1 + "40 31 0:40 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
              "4:cpu,cpuacct:/a/b\n3:cpuset:/\n0::/a\n");
  hybrid.put("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "40000\n");
  hybrid.put("sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "50000\n");
  CHECK(hybrid.cpus() == 1);
}
