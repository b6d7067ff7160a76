#include "apps/version.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <xxhash.h>
#include <zlib.h>
#include <zstd.h>

#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>

#include "apps/build_facts.h"
#include "apps/device.h"
#include "kernels/common/available_cpus.h"

namespace genesis {

extern const char* const kCommit;  // cmake/commit.cmake

namespace {

std::string dotted(unsigned major, unsigned minor, unsigned patch) {
  return fmt::format("{}.{}.{}", major, minor, patch);
}

// From a number such as 10203 for 1.2.3.
std::string dotted(unsigned number) { return dotted(number / 10000, number / 100 % 100, number % 100); }

std::string library(const std::string& name, const std::string& compiled, const std::string& loaded) {
  return fmt::format("{} {}{}", name, compiled, loaded == compiled ? "" : " (loaded: " + loaded + ")");
}

std::string libraries() {
  const dnnl_version_t* onednn = dnnl::version();
  const std::string all[] = {
      library("oneDNN", dotted(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH),
              dotted(unsigned(onednn->major), unsigned(onednn->minor), unsigned(onednn->patch))),
      "sentencepiece " GENESIS_SENTENCEPIECE_VERSION,
      "yaml-cpp " GENESIS_YAML_CPP_VERSION,
      fmt::format("nlohmann-json {}.{}.{}", NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                  NLOHMANN_JSON_VERSION_PATCH),
      "CLI11 " CLI11_VERSION,
      "fmt " + dotted(FMT_VERSION),
      fmt::format("simdjson {}.{}.{}", int(simdjson::SIMDJSON_VERSION_MAJOR),
                  int(simdjson::SIMDJSON_VERSION_MINOR), int(simdjson::SIMDJSON_VERSION_REVISION)),
      library("zlib", ZLIB_VERSION, zlibVersion()),
      library("zstd", ZSTD_VERSION_STRING, ZSTD_versionString()),
      library("xxHash", dotted(XXH_VERSION_NUMBER), dotted(XXH_versionNumber()))};
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#elif defined(__GNUC__)
  return "gcc " __VERSION__;
#else
  return "unknown";
#endif
}

// As far as oneDNN may use it, which leaves out what the system or a setting of its own keeps from it.
std::string cpu_features() {
  using dnnl::cpu_isa;
  const int isa = int(dnnl::get_effective_cpu_isa());
  std::string names;
  for (const auto& [set, name] :
       {std::pair(cpu_isa::avx2, "AVX2"), std::pair(cpu_isa::avx512_core, "AVX-512"),
        std::pair(cpu_isa::avx512_core_bf16, "AVX512-BF16"), std::pair(cpu_isa::avx512_core_amx, "AMX")}) {
    if ((isa & int(set)) == int(set)) names += (names.empty() ? "" : ", ") + std::string(name);
  }
  return names.empty() ? "none of AVX2, AVX-512, AVX512-BF16, AMX" : names;
}

}  // namespace

std::string version_text(const std::string& program) {
  const int cpus = available_cpus();
  return fmt::format(
      "{} {}\n"
      "commit:    {}\n"
      "compiler:  {}, {}\n"
      "libraries: {}\n"
      "CPU:       {} to use, with {}; device.dtype auto is {}\n"
      "CUDA:      {}",
      program, GENESIS_VERSION, kCommit, compiler(), GENESIS_BUILD, libraries(), cpus, cpu_features(),
      name_of(compute_type({}, DeviceKind::cpu)), GENESIS_CUDA_BUILD);
}

}  // namespace genesis
