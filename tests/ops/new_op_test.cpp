// docs/new-op.md lists the files that an op stands in, by the example of SwiGLU.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "tests/support/catch.h"

namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("docs: the files that new-op.md lists are those that name the op it shows") {
  const fs::path root = GENESIS_SOURCE_DIR;
  std::set<std::string> listed, found;
  const std::string page = text_of(root / "docs/new-op.md");
  static const std::regex row("\n\\| [a-z ]+ \\| `([^`]+)`");
  for (std::sregex_iterator it(page.begin(), page.end(), row), end; it != end; ++it) listed.insert((*it)[1]);
  for (const char* folder : {"kernels", "engine/ops", "bench", "tests/kernels", "tests/kernels_cuda",
                             "tests/ops", "tests/costs", "tests/kernels_counts", "tests/kernels_limits"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (!entry.is_regular_file()) continue;
      const std::string name = fs::relative(entry.path(), root).string();
      std::string words = name + text_of(entry.path());
      std::transform(words.begin(), words.end(), words.begin(),
                     [](unsigned char c) { return std::tolower(c); });
      if (words.find("swiglu") != std::string::npos && name != "tests/ops/new_op_test.cpp")
        found.insert(name);
    }
  }
  CHECK(listed == found);
}
