#include "io/corpus.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "io/document_reader.h"
#include "io/file.h"
#include "kernels/common/error.h"

namespace genesis {

Corpus::Corpus(CorpusOptions options, int64_t held_out_from)
    : options_(std::move(options)), held_out_from_(held_out_from) {
  check(!options_.files.empty(), "no text file is given");
  bool sized = true;
  for (const std::string& file : options_.files) {
    if (file == kStandardInput) {
      const auto times = std::count(options_.files.begin(), options_.files.end(), file);
      check(times == 1,
            "standard input (-) is named " + std::to_string(times) + " times: it can be read once");
      sized = false;
      continue;
    }
    // A file that is missing is missed before hours are spent on the others.
    struct stat info {};
    if (access(file.c_str(), R_OK) != 0 || stat(file.c_str(), &info) != 0) throw_errno("cannot read " + file);
    check(!S_ISDIR(info.st_mode), "cannot read " + file + ": it is a folder");
    sized = sized && S_ISREG(info.st_mode);
    file_bytes_ += int64_t(info.st_size);
  }
  if (!sized) file_bytes_ = 0;
}

Corpus::~Corpus() = default;

int64_t Corpus::consumed() const { return finished_bytes_ + (reader_ ? reader_->consumed() : 0); }

std::optional<TextBlock> Corpus::next_read() {
  while (true) {
    if (!reader_) {
      if (next_file_ == options_.files.size()) {
        check_separator();
        return std::nullopt;
      }
      reader_ = open_documents(options_.files[next_file_++], options_, findings_);
    }
    if (auto block = reader_->next()) return block;
    finished_bytes_ += reader_->consumed();
    reader_.reset();
  }
}

void Corpus::check_separator() const {
  if (options_.separator.empty() || findings_.separators > 0) return;
  check(findings_.plain_files == 0, "the separator does not occur in the text (plain text files read: " +
                                        std::to_string(findings_.plain_files) +
                                        "); without one, each file is a document");
  throw Error(
      "a separator is given, and no file is plain text with anything in it: a line of JSONL is a document");
}

std::optional<TextBlock> Corpus::next() {
  while (true) {
    auto block = rest_ ? std::exchange(rest_, std::nullopt) : next_read();
    if (!block) return std::nullopt;
    block->held_out = held_out_;
    if (!held_out_) hold_out(*block);
    position_ += int64_t(block->text.size());
    const bool empty = block->text.empty() && !inside_;  // all that was cut off of a document
    inside_ = !block->ends_document;
    if (!empty) return block;
  }
}

// Sees whether what is held out begins in or after this block, and if so ends the document and the block
// there.
void Corpus::hold_out(TextBlock& block) {
  const int64_t size = int64_t(block.text.size());
  if (position_ + size < held_out_from_) return;
  const auto from = size_t(std::max<int64_t>(held_out_from_ - position_ - 1, 0));
  const size_t line_end = block.text.find('\n', from);
  const size_t cut = line_end == std::string::npos ? block.text.size() : line_end + 1;
  if (cut < block.text.size()) rest_ = TextBlock{block.text.substr(cut), block.ends_document, true};
  held_out_ = line_end != std::string::npos || block.ends_document;
  block.ends_document = held_out_;
  block.text.resize(cut);
}

}  // namespace genesis
