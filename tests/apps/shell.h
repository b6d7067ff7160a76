// A program as its user meets it: run in a folder of its own.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "io/file.h"
#include "tests/support/temp_folder.h"

namespace genesis {

struct Outcome {
  int code;
  std::string out, err;
};

class Shell {
 public:
  explicit Shell(std::string program) : program_(std::move(program)) {}

  Outcome run(const std::string& arguments) const {
    const std::string command = "cd " + folder.path().string() + " && " + GENESIS_BIN_DIR + "/" + program_ +
                                " " + arguments + " >stdout 2>stderr";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), read_text_file(folder.file("stdout")),
            read_text_file(folder.file("stderr"))};
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder.path() / name); }

  TempFolder folder;

 private:
  std::string program_;
};

}  // namespace genesis
