// The sources that nvcc compiles for the device, read as text: none may go past kernels/simt and kernels/ptx,
// where the host executor could not follow.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace {

namespace fs = std::filesystem;

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The source with comments and the insides of literals blank, line by line as it was.
std::string code_of(const std::string& source) {
  std::string code = source;
  const auto blank = [&](size_t from, size_t to) {
    for (size_t i = from; i < std::min(to, code.size()); ++i) {
      if (code[i] != '\n') code[i] = ' ';
    }
    return to;
  };
  for (size_t i = 0; i < source.size();) {
    if (source.compare(i, 2, "//") == 0) {
      i = blank(i, source.find('\n', i));
    } else if (source.compare(i, 2, "/*") == 0) {
      const size_t end = source.find("*/", i + 2);
      i = blank(i, end == std::string::npos ? end : end + 2);
    } else if (source[i] == '"' || (source[i] == '\'' && (i == 0 || !in_word(source[i - 1])))) {
      size_t end = i + 1;
      while (end < source.size() && source[end] != source[i] && source[end] != '\n') {
        end += source[end] == '\\' ? 2 : 1;
      }
      i = blank(i + 1, end) + 1;
    } else {
      ++i;
    }
    if (i == std::string::npos) break;
  }
  return code;
}

// CUDA and compiler names begin with two underscores; these are what kernels/simt/qualifiers.h gives a C++
// compiler too, and kernels/common/source_location.h asks it for. What is not among them is a way around the
// executor: __shared__, __syncthreads, __shfl_sync, __ldg, __CUDACC__, ...
const std::set<std::string> kReservedNames = {
    "__global__",     "__device__",     "__host__",         "__forceinline__",          "__launch_bounds__",
    "__builtin_FILE", "__builtin_LINE", "__builtin_COLUMN", "__cpp_lib_source_location"};

// Functions of <bit> that nvcc takes in device code and may make nonsense of (seen: countr_one), and tests of
// floats whose names mean different functions to the two compilers. kernels/ptx and kernels/simt/floats.h
// have their own.
const std::set<std::string> kStdNames = {"countr_one", "countr_zero", "countl_one", "countl_zero", "popcount",
                                         "bit_width",  "bit_ceil",    "bit_floor",  "rotl",        "rotr",
                                         "isfinite",   "isnan",       "isinf",      "signbit"};

// What one word of the code says that it must not; or empty.
std::string objection(const std::string& code, size_t begin, const std::string& word) {
  if (word == "asm") return "assembly outside kernels/ptx";
  if (word == "volatile") return "an access past simt::load and simt::store";
  if (word.starts_with("__") && !kReservedNames.contains(word)) return "a CUDA or compiler name";
  if (word.starts_with("atomic") || word == "memory_order") return "an atomic, whose results depend on order";
  if (word.starts_with("cuda") && word != "cuda") return "CUDA's runtime outside kernels/simt";
  const bool of_std = begin >= 5 && code.compare(begin - 5, 5, "std::") == 0;
  if (of_std && kStdNames.contains(word)) return "a function that nvcc miscompiles in device code";
  return "";
}

// What is wrong in a source, as "line 3: __ldg: a CUDA or compiler name".
std::vector<std::string> objections(const std::string& source) {
  const std::string code = code_of(source);
  std::vector<std::string> found;
  size_t line = 1;
  const auto object = [&](const std::string& word, const std::string& why) {
    found.push_back("line " + std::to_string(line) + ": " + word + ": " + why);
  };
  for (size_t i = 0; i < code.size();) {
    if (code.compare(i, 3, "<<<") == 0) {
      object("<<<", "a launch without simt::launch");
      i += 3;
    } else if (in_word(code[i])) {
      size_t end = i;
      while (end < code.size() && in_word(code[end])) ++end;
      const std::string word = code.substr(i, end - i);
      if (const std::string why = objection(code, i, word); !why.empty()) object(word, why);
      i = end;
    } else {
      if (code[i] == '\n') ++line;
      ++i;
    }
  }
  return found;
}

std::string read(const fs::path& path) {
  std::ifstream in(path);
  REQUIRE(in);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The project's headers that a source includes, from its root.
std::vector<std::string> includes(const std::string& source) {
  std::vector<std::string> found;
  const std::string before = "#include \"";
  for (size_t at = source.find(before); at != std::string::npos; at = source.find(before, at + 1)) {
    const size_t begin = at + before.size();
    found.push_back(source.substr(begin, source.find('"', begin) - begin));
  }
  return found;
}

bool has_its_own_device_code(const std::string& path) {
  return path.starts_with("kernels/simt/") || path.starts_with("kernels/ptx/");
}

// Every .cu file of kernels and bench outside kernels/simt and kernels/ptx, and every header that one of them includes, those two
// folders' left out: path and text.
std::vector<std::pair<std::string, std::string>> device_sources() {
  const fs::path root = GENESIS_SOURCE_DIR;
  std::vector<std::string> paths;
  for (const char* room : {"kernels", "bench"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
      if (entry.path().extension() == ".cu") paths.push_back(fs::relative(entry.path(), root).string());
    }
  }
  std::set<std::string> seen;
  std::vector<std::pair<std::string, std::string>> sources;
  while (!paths.empty()) {
    const std::string path = paths.back();
    paths.pop_back();
    if (has_its_own_device_code(path) || !seen.insert(path).second) continue;
    const std::string text = read(root / path);
    for (const std::string& header : includes(text)) paths.push_back(header);
    sources.emplace_back(path, text);
  }
  return sources;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

}  // namespace

TEST_CASE("kernels reach the GPU through simt and ptx alone") {
  const auto sources = device_sources();
  std::set<std::string> paths;
  for (const auto& [path, text] : sources) {
    INFO(path);
    CHECK(joined(objections(text)) == "");
    paths.insert(path);
  }
  // What is looked at: the kernels, their CUDA headers, and what those share with the CPU's version.
  for (const char* path :
       {"kernels/attention/attention_dkv.cu", "kernels/attention/attention_tile_cuda.h",
        "kernels/rmsnorm/rmsnorm.h", "kernels/common/bf16.h", "bench/kernels/cuda/read.cu"}) {
    CHECK(paths.contains(path));
  }
}

TEST_CASE("what goes around the executor is found in a source") {
  const char* planted[] = {"__shared__ float x[32];",
                           "extern __shared__ char raw[];",
                           "kernel<<<grid, 128>>>(x);",
                           "asm volatile(\"bar.sync 0;\");",
                           "__asm__(\"\");",
                           "__syncthreads();",
                           "__syncwarp();",
                           "x += __shfl_xor_sync(~0u, x, 1);",
                           "y = __ldg(x);",
                           "atomicAdd(sum, x);",
                           "std::atomic<int> n;",
                           "std::atomic_ref<int> n(x);",
                           "#ifdef __CUDACC__",
                           "#if __CUDA_ARCH__ >= 900",
                           "__constant__ float table[4];",
                           "__nv_bfloat16 h;",
                           "y = __expf(x);",
                           "n = __builtin_popcount(x);",
                           "*(volatile float*)x = 0;",
                           "cudaDeviceSynchronize();",
                           "n = std::countr_one(x);",
                           "n = std::countr_zero(x);",
                           "n = std::popcount(x);",
                           "if (std::isnan(x)) return;",
                           "const char c = '\"'; __syncthreads();  // a quote that opens no string",
                           "const int n = 1'000; __syncthreads();",
                           "/* a comment */ __syncthreads();",
                           "const char* s = \"\\\"\"; __syncthreads();"};
  for (const char* line : planted) {
    const auto found = objections(std::string("int first;\n") + line + "\nint last;\n");
    INFO(line);
    CHECK(!found.empty());
    for (const std::string& objection : found) CHECK(objection.starts_with("line 2: "));
  }
}

TEST_CASE("what a kernel may say is left alone") {
  CHECK(joined(objections("// __syncthreads and asm are for kernels/simt\n"
                          "/* atomicAdd\n <<< */\n"
                          "const char* name = \"__shared__ \\\" asm\";\n"
                          "const char quote = '\"', other = '\\'';\n"
                          "namespace genesis::cuda {\n"
                          "template <class T>\n"
                          "__global__ void __launch_bounds__(128) row_kernel(const T* x, int64_t n) {\n"
                          "  const int64_t many = 1'000'000, shifted = n << 3;\n"
                          "  int popcount = 0, asm_lines = 0;\n"
                          "  simt::sync_threads();\n"
                          "}\n"
                          "__device__ __forceinline__ float f() { return std::bit_cast<float>(1u); }\n")) ==
        "");
}
