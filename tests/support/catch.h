// Catch2, version 2 (Debian 12) or 3 (Ubuntu 24.04), under the names that the tests use.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
