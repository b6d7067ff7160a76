// All that is in a folder, to see whether something was changed.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "io/file.h"

namespace genesis {

// By path: a file's bytes, where a symbolic link leads, and what kind everything is and who may use it. Of a folder
// that isn't there it is empty.
inline std::map<std::string, std::string> content_of(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::map<std::string, std::string> content;
  if (!fs::exists(folder)) return content;
  content["."] = "";
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const fs::file_status status = entry.symlink_status();
    std::string& is = content[fs::relative(entry.path().parent_path(), folder) / entry.path().filename()];
    is = std::to_string(int(status.type())) + " " + std::to_string(int(status.permissions())) + " ";
    if (fs::is_symlink(status)) is += fs::read_symlink(entry.path()).string();
    if (fs::is_regular_file(status)) is += read_text_file(entry.path());
  }
  return content;
}

}  // namespace genesis
