#include "core/cli/text_tokens.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/runtime/launch.hpp"
#include "core/text/tokenizer.hpp"

namespace bp::cli {

namespace {

Result<std::string> read_text(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return io_error(path + " is a folder");
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (!file) return io_error(path + " cannot be read");
  return bytes;
}

}  // namespace

Result<TextTokens> tokens_of_file(const std::string& model, const std::string& file) {
  BP_ASSIGN(const std::string bytes, read_text(file));
  BP_ASSIGN(const auto runtime, runtime::default_runtime(1));
  BP_ASSIGN(const auto opened, runtime->open_model(model, "auto"));
  BP_ASSIGN(const auto tokenizer, runtime::make_tokenizer(*opened));
  TextTokens text;
  text.tokens = tokenizer->encode(bytes, {.add_special = false, .parse_special = false});
  const text::Vocabulary& vocabulary = tokenizer->vocabulary();
  if (vocabulary.add_bos) text.bos = vocabulary.bos;
  return text;
}

}  // namespace bp::cli
