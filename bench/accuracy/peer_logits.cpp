// Writes the logits that llama.cpp (or a fork with its C interface) gives behind rows of tokens.
//
//   peer_logits MODEL THREADS OUT < ROWS    ROWS: a row of token ids a line, separated by commas
//
// OUT gets one row of n_vocab float32 a line read. Not part of the build; accuracy.py says how to
// compile it against the peer's own headers and library.

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "llama.h"

namespace {

std::vector<llama_token> tokens_of(const std::string& line) {
  std::vector<llama_token> tokens;
  std::stringstream in(line);
  for (std::string id; std::getline(in, id, ',');) tokens.push_back(std::stoi(id));
  return tokens;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  llama_backend_init();
  llama_model* model = llama_model_load_from_file(argv[1], llama_model_default_params());
  if (model == nullptr) return 1;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 1024;
  params.n_threads = params.n_threads_batch = std::atoi(argv[2]);
  const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::FILE* out = std::fopen(argv[3], "wb");
  if (out == nullptr) return 1;
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<llama_token> tokens = tokens_of(line);
    llama_context* context = llama_init_from_model(model, params);
    if (context == nullptr) return 1;
    llama_batch batch = llama_batch_get_one(tokens.data(), static_cast<int>(tokens.size()));
    if (llama_decode(context, batch) != 0) return 1;
    std::fwrite(llama_get_logits_ith(context, -1), sizeof(float), n_vocab, out);
    llama_free(context);
  }
  std::fclose(out);
  llama_model_free(model);
}
