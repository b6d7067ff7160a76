#include "io/config/yaml.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "io/utf8.h"
#include "kernels/common/error.h"

namespace genesis {
namespace {

constexpr size_t kLargestFile = 1 << 20;

bool has_control(std::string_view text, std::string_view allowed) {
  return std::any_of(text.begin(), text.end(), [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < ' ' || byte == 0x7f) && allowed.find(c) == std::string_view::npos;
  });
}

// Builds the tree from yaml-cpp's events. Its own tree would hide duplicate keys, anchors and tags.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& name) : name_(name), last_(name) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    check(!started_, at(mark) + ": a second YAML document begins here; a config is one document");
    started_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(node(Yaml::Kind::null, mark, "?", anchor), mark);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Error(at(mark) + ": aliases (*name) are not taken; write the value itself");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Yaml scalar = node(Yaml::Kind::scalar, mark, tag, anchor);
    scalar.quoted = tag == "!";
    check_scalar(value, scalar.where);
    scalar.text = value;
    add(std::move(scalar), mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open_.push_back({node(Yaml::Kind::list, mark, tag, anchor), mark, {}, {}});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open_.push_back({node(Yaml::Kind::map, mark, tag, anchor), mark, {}, {}});
  }
  void OnMapEnd() override { close(); }

  const std::optional<Yaml>& root() const { return root_; }
  const std::string& last() const { return last_; }  // where the last node read stands

 private:
  struct Open {
    Yaml node;
    YAML::Mark mark;
    std::optional<std::string> key;  // of a map: waits for its value
    std::string key_where;
  };

  std::string at(const YAML::Mark& mark) const { return fmt::format("{}:{}", name_, mark.line + 1); }

  Yaml node(Yaml::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    last_ = at(mark);
    check(anchor == 0, at(mark) + ": anchors (&name) are not taken; write the value where it is needed");
    check(tag.empty() || tag == "?" || tag == "!", at(mark) + ": tags (" + tag + ") are not taken");
    Yaml made;
    made.kind = kind;
    made.where = last_;
    return made;
  }

  void close() {
    const Open done = std::move(open_.back());
    open_.pop_back();
    add(done.node, done.mark);
  }

  void add(Yaml value, const YAML::Mark& mark) {
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Yaml::Kind::list) {
      parent.node.items.push_back(std::move(value));
    } else if (parent.key) {
      value.where = parent.key_where;
      parent.node.entries.emplace_back(std::move(*parent.key), std::move(value));
      parent.key.reset();
    } else {
      take_key(parent, value, mark);
    }
  }

  void take_key(Open& parent, const Yaml& key, const YAML::Mark& mark) const {
    check(key.kind == Yaml::Kind::scalar,
          fmt::format("{}: expected a key, found {}", at(mark), describe(key)));
    check(key.text != "<<" || key.quoted, at(mark) + ": merge keys (<<) are not taken; write the keys out");
    for (const auto& [name, value] : parent.node.entries) {
      if (name != key.text) continue;
      throw Error(fmt::format("{}: key {} is there twice; first at {}", at(mark), name, value.where));
    }
    parent.key = key.text;
    parent.key_where = key.where;
  }

  const std::string name_;
  std::string last_;
  std::vector<Open> open_;
  std::optional<Yaml> root_;
  bool started_ = false;
};

// What must hold before yaml-cpp sees the text, line by line.
void check_lines(std::string_view text, const std::string& name) {
  check(text.size() <= kLargestFile,
        fmt::format("{}: {} bytes; a config has at most {}: is this the right file?", name, text.size(),
                    kLargestFile));
  int line = 1;
  for (size_t begin = 0; begin <= text.size(); ++line) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view row = text.substr(begin, end - begin);
    begin = end + 1;
    check(utf8_valid_prefix(row) == row.size(), fmt::format("{}:{}: not UTF-8", name, line));
    check(!has_control(row, "\t\r"),
          fmt::format("{}:{}: a control character; a config is plain text", name, line));
    const std::string_view indent = row.substr(0, row.find_first_not_of(" \t"));
    check(indent.find('\t') == std::string_view::npos,
          fmt::format("{}:{}: a tab before the text; YAML indents with spaces", name, line));
  }
}

}  // namespace

Yaml parse_yaml(std::string_view text, const std::string& name) {
  check_lines(text, name);
  TreeBuilder builder(name);
  try {
    // The empty comment: at a line's end yaml-cpp would take a quote that is still open as closed.
    std::istringstream stream(std::string(text) + "\n#");
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    check(e.msg != YAML::ErrorMsg::EOF_IN_SCALAR, builder.last() + ": a quote after this is not closed");
    std::string reason = e.msg;  // may quote a byte of the file
    std::replace_if(
        reason.begin(), reason.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    throw Error(
        fmt::format("{}:{}:{}: not valid YAML: {}", name, e.mark.line + 1, e.mark.column + 1, reason));
  }
  check(builder.root() && builder.root()->kind != Yaml::Kind::null,
        name + ": the file is empty; expected sections such as model: and data:");
  return *builder.root();
}

void check_scalar(std::string_view text, const std::string& where) {
  check(utf8_valid_prefix(text) == text.size(), where + ": not UTF-8");
  check(!has_control(text, ""), where + ": a control character in a value (a line's end, say)");
}

std::string describe(const Yaml& node) {
  switch (node.kind) {
    case Yaml::Kind::null:
      return "nothing";
    case Yaml::Kind::list:
      return "a list";
    case Yaml::Kind::map:
      return "a section";
    case Yaml::Kind::scalar:
      break;
  }
  if (node.text.empty()) return "empty text";
  constexpr size_t kShown = 60;
  std::string shown = node.text;
  if (shown.size() > kShown) {
    size_t end = kShown;
    while (utf8_continues(shown[end])) --end;
    shown = shown.substr(0, end) + "...";
  }
  return node.quoted ? "\"" + shown + "\" in quotes" : shown;
}

std::string yaml_scalar(const std::string& text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const auto plain = [&](char c) { return letter(c) || c == '/' || c == '.' || c == '_' || c == '-'; };
  const bool null_word = text == "null" || text == "Null" || text == "NULL";
  if (!null_word && !text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), plain) &&
      std::any_of(text.begin(), text.end(), letter)) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace genesis
