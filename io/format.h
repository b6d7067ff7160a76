// Numbers for people to read.
#pragma once

#include <cstdint>
#include <string>

namespace genesis {

std::string format_bytes(double bytes);       // "512 B", "1.50 KiB", "23.1 GiB"
std::string format_count(double count);       // "950", "1.23k", "524k", "1.00B"
std::string format_duration(double seconds);  // "8s", "2m 05s", "3h 04m", "2d 07h"

}  // namespace genesis
