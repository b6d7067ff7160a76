// The sources' #include lines: arrows between the top folders and between the engine's point one way, and passes know
// ops by their rows alone.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace {

namespace fs = std::filesystem;

// Which top folders each may include, besides itself.
const std::map<std::string, std::set<std::string>> kArrows = {
    {"kernels", {}},
    {"engine", {"kernels"}},
    {"io", {"kernels"}},
    {"model", {"engine", "io", "kernels"}},
    {"optim", {"engine", "io", "kernels"}},
    {"apps", {"model", "optim", "engine", "io", "kernels"}},
    {"bench", {"apps", "model", "optim", "engine", "io", "kernels"}},
};

// Which of the engine's folders each of them may include, besides itself.
const std::map<std::string, std::set<std::string>> kEngineArrows = {
    {"core", {}},
    {"device", {}},
    {"graph", {"core"}},
    {"ops", {"graph", "device", "core"}},
    {"build", {"ops", "graph", "device", "core"}},
    {"time", {"ops", "graph", "device", "core"}},
    {"passes", {"time", "ops", "graph", "device", "core"}},
    {"runtime", {"passes", "time", "ops", "graph", "device", "core"}},
};

// What a text includes by quoted names.
std::vector<std::string> includes_of(const std::string& text) {
  static const std::regex kInclude("^[ \t]*#[ \t]*include[ \t]*\"([^\"]+)\"", std::regex::multiline);
  std::vector<std::string> names;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), kInclude); it != std::sregex_iterator();
       ++it) {
    names.push_back((*it)[1]);
  }
  return names;
}

std::string top_of(const std::string& path) { return path.substr(0, path.find('/')); }

// Why a source may not include a file; empty: it may.
std::string refused(const std::string& source, const std::string& included) {
  const std::string from = top_of(source), to = top_of(included);
  if (kArrows.count(to) == 0 && to != "tests") return "is not named from the top folder";
  if (from != to && kArrows.at(from).count(to) == 0) return "points the wrong way";
  if (from == "engine" && to == "engine") {
    const std::string inner = top_of(source.substr(7)), wanted = top_of(included.substr(7));
    if (kEngineArrows.count(inner) == 0) return "is in a folder of the engine that no arrow leads from";
    if (inner != wanted && kEngineArrows.at(inner).count(wanted) == 0) return "points the wrong way";
  }
  if (source.starts_with("engine/passes/") && included.starts_with("engine/ops/") &&
      included != "engine/ops/op.h" && included != "engine/ops/table.h" &&
      included != "engine/ops/differentiator.h") {
    return "is an op's, and a pass asks its row";
  }
  return "";
}

}  // namespace

TEST_CASE("includes: arrows between the top folders point one way, and passes name no op") {
  const fs::path root = GENESIS_SOURCE_DIR;
  int sources = 0, included = 0;
  std::string wrong;
  for (const auto& [folder, arrows] : kArrows) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp" && extension != ".cu") continue;
      ++sources;
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      const std::string source = fs::relative(entry.path(), root);
      for (const std::string& name : includes_of(text)) {
        ++included;
        const std::string why = refused(source, name);
        if (!why.empty()) wrong += source + ": " + name + " " + why + "\n";
      }
    }
  }
  CHECK(wrong == "");
  CHECK(sources > 150);
  CHECK(included > 500);
}

TEST_CASE("includes: what points the wrong way is found") {
  CHECK(includes_of("#include \"a/b.h\"\n  # include \"c.h\"\n#include <d>\n// #include \"e.h\"\n") ==
        std::vector<std::string>{"a/b.h", "c.h"});
  CHECK(refused("engine/passes/verify.cpp", "engine/ops/table.h") == "");
  CHECK(refused("engine/graph/graph.cpp", "engine/ops/table.h") == "points the wrong way");
  CHECK(refused("engine/ops/rope.cpp", "engine/passes/verify.h") == "points the wrong way");
  CHECK(refused("engine/time/rates.h", "engine/runtime/storage.h") == "points the wrong way");
  CHECK(refused("engine/comm/ring.h", "engine/core/shape.h") ==
        "is in a folder of the engine that no arrow leads from");
  CHECK(refused("model/decoder.h", "io/config.h") == "");
  CHECK(refused("kernels/rope/rope.cu", "engine/graph/graph.h") == "points the wrong way");
  CHECK(refused("io/loader.h", "engine/core/shape.h") == "points the wrong way");
  CHECK(refused("optim/adamw.cpp", "model/parameters.h") == "points the wrong way");
  CHECK(refused("apps/genesis_train.cpp", "tests/support/catch.h") == "points the wrong way");
  CHECK(refused("engine/passes/recompute.cpp", "engine/ops/rmsnorm.h") ==
        "is an op's, and a pass asks its row");
  CHECK(refused("engine/passes/recompute.cpp", "recompute.h") == "is not named from the top folder");
}
