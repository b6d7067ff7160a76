// The right to write a file, which one process has at a time.
#pragma once

#include <string>

namespace genesis {

class OutputClaim {
 public:
  // Holds a lock on the file NAME.lock.tmp, which it makes, NAME being file_to_replace(name). Throws Error if another claim of the name lives, in this
  // process or another. A process that is killed loses its lock, and leaves a file that is in nobody's way. A file
  // system without locks lets everybody have the name.
  explicit OutputClaim(const std::string& name);
  ~OutputClaim();  // removes the file
  OutputClaim(const OutputClaim&) = delete;
  OutputClaim& operator=(const OutputClaim&) = delete;

  static std::string lock_file(const std::string& name);

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace genesis
