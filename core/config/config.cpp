#include "core/config/config.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "backplane/backend.h"
#include "backplane/scheduler.h"
#include "core/base/read_file.hpp"
#include "core/base/yaml.hpp"
#include "core/config/model_section.hpp"
#include "core/config/plugin_keys.hpp"
#include "core/config/sizes.hpp"
#include "core/plugin/catalog.hpp"

namespace bp::config {

namespace fs = std::filesystem;
using base::Yaml;

namespace {

std::string folder_of(const std::string& path) {
  return fs::absolute(path).parent_path().string();
}

std::string resolve(const std::string& folder, const std::string& path) {
  return (fs::path(folder) / path).lexically_normal().string();
}

// "HOST:PORT", "[::1]:PORT".
Status read_listen(const Yaml& node, Server& server) {
  BP_ASSIGN(const std::string text, node.as_string());
  const size_t colon = text.rfind(':');
  std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  unsigned port = 0;
  const char* first = text.data() + (colon == std::string::npos ? text.size() : colon + 1);
  const char* last = text.data() + text.size();
  const auto [end, code] = std::from_chars(first, last, port);
  if (host.empty() || code != std::errc() || end != last || port > 65535) {
    return node.error(fmt::format("must be HOST:PORT, as 127.0.0.1:8080 is, not '{}'", text));
  }
  server.host = host;
  server.port = static_cast<uint16_t>(port);
  return {};
}

Result<std::string> read_key_file(const Yaml& node, const std::string& folder) {
  BP_ASSIGN(const std::string name, node.as_string());
  const std::string path = resolve(folder, name);
  // Its first line counts; what is longer than this is no file of a key.
  constexpr uint64_t kLargestFile = 1 << 20;
  const auto bytes = base::read_file(path, kLargestFile);
  if (!bytes.ok()) {
    return node.error("the key file cannot be read: " + bytes.status().message());
  }
  std::string key = bytes->substr(0, bytes->find('\n'));
  const size_t first = key.find_first_not_of(" \t\r");
  if (first == std::string::npos) return node.error("the first line of the key file is blank");
  key = key.substr(first, key.find_last_not_of(" \t\r") - first + 1);
  constexpr size_t kLongest = 4096;
  if (key.size() > kLongest) return node.error("the key is longer than 4096 bytes");
  return key;
}

Result<ApiKey> read_api_key(const Yaml& yaml, const std::string& folder) {
  BP_TRY(yaml.expect_keys({"key_file", "tenant", "priority"}));
  ApiKey key;
  const auto file = yaml.find("key_file");
  if (!file) return yaml.error("the key 'key_file' is missing");
  BP_ASSIGN(key.key, read_key_file(*file, folder));
  if (const auto tenant = yaml.find("tenant")) {
    BP_ASSIGN(key.tenant, tenant->as_string());
  }
  if (const auto priority = yaml.find("priority")) {
    BP_ASSIGN(const int64_t value, priority->as_int(-1000, 1000));
    key.priority = static_cast<int32_t>(value);
  }
  return key;
}

template <class T>
Status read_number(const Yaml& yaml, const std::string& key, int64_t min, int64_t max, T& out) {
  if (const auto node = yaml.find(key)) {
    BP_ASSIGN(const int64_t value, node->as_int(min, max));
    out = static_cast<T>(value);
  }
  return {};
}

Status read_server(const Yaml& yaml, const std::string& folder, Server& server) {
  BP_TRY(yaml.expect_keys(
      {"listen", "api_keys", "max_queue", "grace_s", "max_body_bytes", "request_templates"}));
  if (const auto listen = yaml.find("listen")) {
    BP_TRY(read_listen(*listen, server));
  }
  if (const auto keys = yaml.find("api_keys")) {
    BP_ASSIGN(const auto items, keys->items());
    // Without any the server asks for none, which a list that lost its entries does not mean.
    if (items.empty()) return keys->error("must have a key; leave it out to ask for none");
    for (const Yaml& item : items) {
      BP_ASSIGN(ApiKey key, read_api_key(item, folder));
      server.api_keys.push_back(std::move(key));
    }
  }
  BP_TRY(read_number(yaml, "max_queue", 1, 1 << 20, server.max_queue));
  BP_TRY(read_number(yaml, "grace_s", 0, 86400, server.grace_s));
  if (const auto body = yaml.find("max_body_bytes")) {
    BP_ASSIGN(const std::string text, body->as_string());
    const auto bytes = parse_size(text);
    constexpr uint64_t kSmallest = 1024, kLargest = 1u << 30;
    if (!bytes || *bytes < kSmallest || *bytes > kLargest) {
      return body->error("must be a size from 1KiB to 1GiB");
    }
    server.max_body_bytes = *bytes;
  }
  if (const auto templates = yaml.find("request_templates")) {
    BP_ASSIGN(server.request_templates, templates->as_bool());
  }
  return {};
}

Result<std::vector<std::string>> read_paths(const Yaml& root, const std::string& folder) {
  std::vector<std::string> paths;
  const auto plugins = root.find("plugins");
  if (!plugins) return paths;
  BP_TRY(plugins->expect_keys({"path"}));
  if (const auto list = plugins->find("path")) {
    BP_ASSIGN(const auto items, list->items());
    for (const Yaml& item : items) {
      BP_ASSIGN(const std::string text, item.as_string());
      paths.push_back(resolve(folder, text));
      std::error_code ignored;
      if (!fs::is_directory(paths.back(), ignored)) {
        return item.error(fmt::format("there is no folder '{}'", paths.back()));
      }
    }
  }
  return paths;
}

Status read_models(const Yaml& root, const std::string& folder, const plugin::Catalog& catalog,
                   std::vector<Model>& out) {
  const auto models = root.find("models");
  if (!models) return root.error("the key 'models' is missing: a list of {id, source}");
  BP_ASSIGN(const auto items, models->items());
  if (items.empty()) return models->error("must list at least one model");
  std::set<std::string> ids;
  for (const Yaml& item : items) {
    BP_ASSIGN(Model model, read_model(item, folder, catalog));
    if (!ids.insert(model.id).second) {
      return item.error(fmt::format("the id '{}' is given twice", model.id));
    }
    out.push_back(std::move(model));
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> read_plugin_paths(const std::string& path) {
  // It is read again with the plugins that are found.
  BP_TRY(base::expect_regular_file(path));
  BP_ASSIGN(const Yaml root, Yaml::load_file(path));
  return read_paths(root, folder_of(path));
}

Result<Config> load(const std::string& path, const plugin::Catalog& catalog) {
  BP_ASSIGN(const Yaml root, Yaml::load_file(path));
  BP_TRY(root.expect_keys({"server", "plugins", "models"}));
  Config config;
  config.path = fs::absolute(path).string();
  const std::string folder = folder_of(path);
  if (const auto server = root.find("server")) {
    BP_TRY(read_server(*server, folder, config.server));
  }
  BP_ASSIGN(config.plugin_paths, read_paths(root, folder));
  BP_TRY(read_models(root, folder, catalog, config.models));
  return config;
}

Result<Model> default_model(const std::string& source, const std::string& backend,
                            const plugin::Catalog& catalog) {
  Model model;
  model.source = fs::absolute(source).lexically_normal().string();
  model.id = fs::path(model.source).stem().string();
  model.backend.plugin = backend;
  BP_ASSIGN(const auto* backend_entry, catalog.find(backend, BP_BACKEND_ID));
  BP_ASSIGN(model.backend.params, default_keys(backend_entry->manifest.config));
  BP_ASSIGN(const auto* scheduler, catalog.find(model.scheduler.plugin, BP_SCHEDULER_ID));
  BP_ASSIGN(model.scheduler.params, default_keys(scheduler->manifest.config));
  return model;
}

}  // namespace bp::config
