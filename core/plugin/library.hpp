#pragma once
// A loaded plugin: opened once, never unloaded, checked against its manifest (A12, A14).

#include <memory>
#include <string>

#include "backplane/plugin.h"
#include "backplane/status.hpp"
#include "core/plugin/manifest.hpp"

namespace bp::plugin {

class Library {
 public:
  // Loads the code and compares it with the manifest. One error lists everything wrong and names
  // the plugin and its file. A file that has been replaced since it was loaded is loaded anew, and
  // the old code stays. [any-thread]
  static Result<std::shared_ptr<const Library>> load(const Manifest& manifest);

  [[nodiscard]] const std::string& id() const { return id_; }
  // The factory of a kind, e.g. factory<bp_format>(BP_FORMAT_ID); null where the plugin lacks it.
  template <class T>
  [[nodiscard]] const T* factory(const char* kind) const {
    return static_cast<const T*>(find_factory(kind));
  }

 private:
  explicit Library(const bp_plugin& plugin);
  [[nodiscard]] const void* find_factory(const char* kind) const;

  std::string id_;
  bp_plugin plugin_;
};

}  // namespace bp::plugin
