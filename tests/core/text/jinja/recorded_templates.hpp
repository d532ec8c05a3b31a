#pragma once
// The chat templates of real models and their recorded renderings, from BACKPLANE_TEST_DATA.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/text/chat_template.hpp"

namespace bp::text {

inline std::optional<std::filesystem::path> template_folder() {
  const char* data = std::getenv("BACKPLANE_TEST_DATA");
  if (!data) return std::nullopt;
  return std::filesystem::path(data) / "chat-templates";
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Name to source.
inline std::map<std::string, std::string> recorded_sources(const std::filesystem::path& folder) {
  std::map<std::string, std::string> sources;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".jinja") {
      sources[entry.path().stem().string()] = read_text(entry.path());
    }
  }
  return sources;
}

inline TokenTexts recorded_tokens() {
  return {{"bos_token", "<BOS>"},
          {"eos_token", "<EOS>"},
          {"pad_token", "<PAD>"},
          {"unk_token", "<UNK>"}};
}

inline std::tm recorded_clock() {
  return parse_clock("2026-01-15T12:00:00").value();
}

}  // namespace bp::text
