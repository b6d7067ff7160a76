// A file, a pipe or standard input, read from front to back in large pieces.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace genesis {

// Told, in a line, what somebody at a terminal would want to know.
using OnNotice = std::function<void(const std::string&)>;

constexpr const char* kStandardInput = "-";

class InputFile {
 public:
  // Opens the file and reads its first piece. Where nothing comes from a pipe or a terminal, `notice` is told
  // what is being waited for. Throws Error, naming the file, if it cannot be read.
  InputFile(const std::string& path, const OnNotice& notice);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // What is read but not used: empty at the end of the file alone.
  std::string_view ready() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void use(size_t n);
  int64_t used() const { return used_; }
  const std::string& name() const { return name_; }  // for messages

 private:
  void refill();
  void wait();

  std::string name_;
  const OnNotice notice_;
  int file_ = -1;
  bool told_ = false;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  int64_t used_ = 0;
};

}  // namespace genesis
