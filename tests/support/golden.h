// Text that is compared with a file of the repository.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>

#include "io/file.h"

namespace genesis {

// Empty if `text` is what tests/<name>.txt holds; else the first line that differs, and the command that
// takes the new text over if it is what is wanted.
inline std::string golden_mismatch(const std::string& name, const std::string& text) {
  namespace fs = std::filesystem;
  const fs::path golden = fs::path(GENESIS_SOURCE_DIR) / "tests" / (name + ".txt");
  const std::string expected = fs::exists(golden) ? read_text_file(golden.string()) : "";
  if (text == expected) return "";
  const fs::path found = fs::path(GENESIS_BIN_DIR) / "golden" / (name + ".txt");
  fs::create_directories(found.parent_path());
  replace_text_file(found.string(), text);
  std::istringstream a(expected), b(text);
  std::string old_line, new_line;
  int line = 0;
  do {
    ++line;
    if (!std::getline(a, old_line)) old_line = "(nothing)";
    if (!std::getline(b, new_line)) new_line = "(nothing)";
  } while (old_line == new_line);
  return golden.string() + ":" + std::to_string(line) + ": expected\n  " + old_line + "\nfound\n  " +
         new_line + "\nIf the change is meant: cp " + found.string() + " " + golden.string();
}

}  // namespace genesis
