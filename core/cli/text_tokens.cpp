#include "core/cli/text_tokens.hpp"

#include "core/base/read_file.hpp"
#include "core/cli/standard_input.hpp"
#include "core/runtime/launch.hpp"
#include "core/text/tokenizer.hpp"

namespace bp::cli {

Result<TextTokens> tokens_of_file(const std::string& model, const std::string& file) {
  BP_ASSIGN(const std::string bytes, base::read_file(file, kMaxInputBytes));
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
