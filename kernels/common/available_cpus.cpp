#include "kernels/common/available_cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace genesis {
namespace {

namespace fs = std::filesystem;

int cpus_of_affinity() {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {  // the call fails for a set smaller than the system's
    cpu_set_t* set = CPU_ALLOC(cpus);
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    const bool known = set && sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return std::max(count, 1);
  }
  return std::max(int(std::thread::hardware_concurrency()), 1);
}

// CPUs' worth of time that a cgroup's folder allows: infinity where it sets no quota. Version 2 has cpu.max,
// "50000 100000" or "max 100000"; version 1 two files, the quota -1 for none (Linux,
// Documentation/admin-guide/cgroup-v2.rst and scheduler/sched-bwc.rst).
double quota_of(const fs::path& cgroup) {
  double quota = 0, period = 0;
  if (!(std::ifstream(cgroup / "cpu.max") >> quota >> period)) {
    std::ifstream(cgroup / "cpu.cfs_quota_us") >> quota;
    std::ifstream(cgroup / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : INFINITY;
}

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// Where the CPU controller's cgroups are mounted, and which of them is mounted there (proc_pid_mountinfo(5)).
struct Mount {
  fs::path point, mounted;
  bool version2 = false;
};

std::vector<Mount> cpu_mounts(const fs::path& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root / "proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string skipped, mounted, point, type, source, options;
    words >> skipped >> skipped >> skipped >> mounted >> point;
    while (words >> skipped && skipped != "-") {
    }
    words >> type >> source >> options;
    if (type == "cgroup2" || (type == "cgroup" && has_word(options, "cpu"))) {
      mounts.push_back({point, mounted, type == "cgroup2"});
    }
  }
  return mounts;
}

// The process's cgroup in that hierarchy: a line "0::/path" or "4:cpu,cpuacct:/path" (cgroups(7)).
fs::path own_cgroup(const fs::path& root, bool version2) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version2 ? controllers.empty() : has_word(controllers, "cpu")) return line.substr(second + 1);
  }
  return "/";
}

double cpus_of_cgroups(const fs::path& root) {
  double cpus = INFINITY;
  for (const Mount& mount : cpu_mounts(root)) {
    // A container may see a path of the host's, of which its mount shows the end or nothing.
    fs::path inside = own_cgroup(root, mount.version2).lexically_relative(mount.mounted);
    if (inside.empty() || *inside.begin() == "..") inside = ".";
    fs::path cgroup = root / mount.point.relative_path();
    cpus = std::min(cpus, quota_of(cgroup));
    for (const fs::path& part : inside) cpus = std::min(cpus, quota_of(cgroup /= part));
  }
  return cpus;
}

}  // namespace

int available_cpus(const fs::path& root) {
  return int(std::min(double(cpus_of_affinity()), std::ceil(cpus_of_cgroups(root))));
}

}  // namespace genesis
