#include "io/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <vector>

#include "io/file.h"
#include "kernels/common/error.h"

namespace genesis {

namespace {

constexpr size_t kBuffer = size_t(1) << 17;

// The file itself, read in large pieces.
class RawFile {
 public:
  explicit RawFile(std::string path) : path_(std::move(path)), buffer_(kBuffer) {
    file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ < 0) throw_errno("cannot read " + path_);
    refill();
  }
  ~RawFile() { close(file_); }
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  // What is read but not used: empty at the end of the file alone.
  std::string_view ready() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void use(size_t n) {
    begin_ += n;
    used_ += int64_t(n);
    if (begin_ == end_) refill();
  }
  int64_t used() const { return used_; }
  const std::string& path() const { return path_; }

 private:
  void refill() {
    ssize_t got;
    do got = ::read(file_, buffer_.data(), buffer_.size());
    while (got < 0 && errno == EINTR);
    if (got < 0) throw_errno("cannot read " + path_);
    begin_ = 0;
    end_ = size_t(got);
  }

  const std::string path_;
  int file_ = -1;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  int64_t used_ = 0;
};

class PlainSource : public ByteSource {
 public:
  explicit PlainSource(std::unique_ptr<RawFile> file) : file_(std::move(file)) {}

  size_t read(std::span<char> buffer) override {
    size_t filled = 0;
    while (filled < buffer.size() && !file_->ready().empty()) {
      const std::string_view part = file_->ready().substr(0, buffer.size() - filled);
      std::memcpy(buffer.data() + filled, part.data(), part.size());
      filled += part.size();
      file_->use(part.size());
    }
    return filled;
  }
  int64_t consumed() const override { return file_->used(); }

 private:
  std::unique_ptr<RawFile> file_;
};

class GzipSource : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<RawFile> file) : file_(std::move(file)) {
    constexpr int kGzipOnly = 15 + 16;  // zlib.h: the largest window, and gzip's header and trailer
    require(inflateInit2(&stream_, kGzipOnly) == Z_OK, "zlib does not start");
  }
  ~GzipSource() override { inflateEnd(&stream_); }

  size_t read(std::span<char> buffer) override {
    stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_.avail_out = uInt(buffer.size());
    while (stream_.avail_out > 0) {
      const std::string_view input = file_->ready();
      if (input.empty()) {
        check(between_members_, file_->path() + ": the gzip data is cut short");
        break;
      }
      if (between_members_) inflateReset(&stream_);  // a gzip file may hold several, one after another
      between_members_ = false;
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
      stream_.avail_in = uInt(input.size());
      const int status = inflate(&stream_, Z_NO_FLUSH);
      file_->use(input.size() - stream_.avail_in);
      check(status == Z_OK || status == Z_STREAM_END,
            file_->path() + ": the gzip data is damaged before byte " + std::to_string(file_->used()) +
                (stream_.msg ? std::string(" (") + stream_.msg + ")" : ""));
      between_members_ = status == Z_STREAM_END;
    }
    return buffer.size() - stream_.avail_out;
  }
  int64_t consumed() const override { return file_->used(); }

 private:
  std::unique_ptr<RawFile> file_;
  z_stream stream_{};
  bool between_members_ = false;
};

class ZstdSource : public ByteSource {
 public:
  explicit ZstdSource(std::unique_ptr<RawFile> file) : file_(std::move(file)), stream_(ZSTD_createDStream()) {
    require(stream_ != nullptr, "zstd does not start");
  }
  ~ZstdSource() override { ZSTD_freeDStream(stream_); }

  size_t read(std::span<char> buffer) override {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    while (out.pos < out.size) {
      const std::string_view input = file_->ready();
      ZSTD_inBuffer in{input.data(), input.size(), 0};
      const size_t before = out.pos;
      const size_t status = ZSTD_decompressStream(stream_, &out, &in);
      check(!ZSTD_isError(status), file_->path() + ": the zstd data is damaged before byte " +
                                       std::to_string(file_->used() + int64_t(in.pos)) + " (" +
                                       ZSTD_getErrorName(status) + ")");
      if (in.pos > 0) file_->use(in.pos);
      if (in.pos > 0 || out.pos > before) unfinished_ = status;  // bytes it still wants; 0: a frame has ended
      if (input.empty() && out.pos == before) {
        check(unfinished_ == 0, file_->path() + ": the zstd data is cut short");
        break;
      }
    }
    return out.pos;
  }
  int64_t consumed() const override { return file_->used(); }

 private:
  std::unique_ptr<RawFile> file_;
  ZSTD_DStream* stream_;
  size_t unfinished_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  auto file = std::make_unique<RawFile>(path);
  if (file->ready().starts_with("\x1f\x8b"))
    return std::make_unique<GzipSource>(std::move(file));  // RFC 1952
  if (file->ready().starts_with("\x28\xb5\x2f\xfd")) {     // RFC 8878
    return std::make_unique<ZstdSource>(std::move(file));
  }
  check(!path.ends_with(".gz") && !path.ends_with(".zst"), path + ": is not compressed as its name says");
  return std::make_unique<PlainSource>(std::move(file));
}

}  // namespace genesis
