// Ids of many texts, or the speed of encoding one, by a tokenizer.json.
//
// bench_tokenizers TOKENIZER_JSON PRE ids < TEXTS     TEXTS: a JSON string a line; gives ids a line
// bench_tokenizers TOKENIZER_JSON PRE speed < TEXT    gives MB/s of one thread, the best of 7
// bench_tokenizers TOKENIZER_JSON PRE time < TEXTS    likewise; gives seconds a line
//
// PRE: "" reads the file as a Hugging Face folder's, "converted" as quantising the folder to GGUF
// writes it; a name takes its vocabulary and merges alone, with the pre-tokenizer that GGUF calls
// so. A file whose name ends in ".model" is SentencePiece's.

#include <algorithm>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "backplane/metadata.hpp"
#include "backplane/plugin.hpp"
#include "core/text/gguf_vocabulary.hpp"
#include "core/text/tokenizer.hpp"

namespace {

using bp::text::Tokenizer;
using bp::text::Vocabulary;
using TokenizerResult = bp::Result<std::unique_ptr<Tokenizer>>;
using nlohmann::json;

constexpr bp::text::EncodeOptions kPlain = {.add_special = false, .parse_special = false};

std::string read_all(std::istream& in) {
  return {std::istreambuf_iterator<char>(in), {}};
}

TokenizerResult of_folder(const std::string& text, bool is_sentencepiece, bool converts) {
  const bp_str value = bp::to_bp_str(text);
  const char* key =
      is_sentencepiece ? "tokenizer.sentencepiece.model" : "tokenizer.huggingface.json";
  const bp_metadata entry = {bp::to_bp_str(key), BP_META_STRING, 0, 1, &value};
  BP_ASSIGN(Vocabulary vocabulary, bp::text::read_vocabulary({{&entry, 1}}));
  if (converts) {
    BP_ASSIGN(vocabulary, bp::text::gguf_vocabulary(std::move(vocabulary), 0));
  }
  return Tokenizer::create(std::move(vocabulary));
}

TokenizerResult of_gguf(const json& model, const std::string& pre) {
  Vocabulary vocabulary;
  vocabulary.model = pre == "gemma4" || pre == "whitespace" ? pre : "gpt2";
  vocabulary.pre = pre;
  vocabulary.tokens.resize(model["vocab"].size());
  for (const auto& [token, id] : model["vocab"].items()) vocabulary.tokens.set(id, token);
  const std::string unknown = model.value("unk_token", "");
  if (!unknown.empty()) {
    vocabulary.unk = model["vocab"].at(unknown);
    vocabulary.types.resize(vocabulary.tokens.size(), bp::text::TokenType::kNormal);
    vocabulary.types[static_cast<size_t>(vocabulary.unk)] = bp::text::TokenType::kUnknown;
  }
  for (const json& merge : model["merges"]) {
    vocabulary.merges.push_back(merge.is_string() ? merge.get<std::string>()
                                                  : merge[0].get<std::string>() + ' ' +
                                                        merge[1].get<std::string>());
  }
  return Tokenizer::create(std::move(vocabulary));
}

template <typename Print>
void for_each_text(Print&& print) {
  for (std::string line; std::getline(std::cin, line);) print(json::parse(line).get<std::string>());
}

void print_ids(const Tokenizer& tokenizer) {
  for_each_text([&](const std::string& text) {
    std::cout << json(tokenizer.encode(text, kPlain)).dump() << '\n';
  });
}

// Of the process: other programs may have the machine meanwhile.
double seconds_of(const Tokenizer& tokenizer, const std::string& text) {
  const std::clock_t start = std::clock();
  static_cast<void>(tokenizer.encode(text, kPlain));
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

void print_speed(const Tokenizer& tokenizer) {
  const std::string text = read_all(std::cin);
  double least = seconds_of(tokenizer, text);
  for (int i = 0; i < 6; ++i) least = std::min(least, seconds_of(tokenizer, text));
  std::cout << static_cast<double>(text.size()) / 1e6 / least << '\n';
}

void print_times(const Tokenizer& tokenizer) {
  for_each_text(
      [&](const std::string& text) { std::cout << seconds_of(tokenizer, text) << std::endl; });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string pre = argv[2], mode = argv[3];
  std::ifstream file(argv[1], std::ios::binary);
  const std::string text = read_all(file);
  const bool is_folder = pre.empty() || pre == "converted";
  const auto tokenizer =
      is_folder ? of_folder(text, std::string(argv[1]).ends_with(".model"), !pre.empty())
                : of_gguf(json::parse(text)["model"], pre);
  if (!tokenizer.ok()) {
    std::cerr << tokenizer.status().message() << '\n';
    return 1;
  }
  std::ios::sync_with_stdio(false);
  if (mode == "ids") print_ids(**tokenizer);
  if (mode == "speed") print_speed(**tokenizer);
  if (mode == "time") print_times(**tokenizer);
}
