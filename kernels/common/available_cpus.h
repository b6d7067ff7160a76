// How many CPUs this process may keep busy.
#pragma once

#include <filesystem>

namespace genesis {

// The CPUs that the process may run on (its affinity), or the quota of its cgroup and of those above it
// (version 1 or 2; what a container is given), rounded up, where that is less. At least 1. `root` is where
// /proc and /sys are found; what cannot be read there limits nothing.
int available_cpus(const std::filesystem::path& root = "/");

}  // namespace genesis
