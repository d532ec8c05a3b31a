#pragma once
// A plugin of the build tree, loaded as the program loads it, and a host that offers nothing.

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "backplane/plugin.hpp"
#include "core/plugin/library.hpp"
#include "core/plugin/manifest.hpp"

namespace bp::testing {

inline const bp_host* bare_host() {
  static const bp_host host = make_growable<bp_host>();
  return &host;
}

struct Loaded {
  plugin::Manifest manifest;
  std::shared_ptr<const plugin::Library> library;
};

inline Loaded load_plugin(const std::string& id) {
  const char* build = std::getenv("BACKPLANE_BUILD_DIR");
  const std::string folder = build == nullptr ? "." : build;
  auto manifest = plugin::read_manifest(folder + "/lib/backplane/" + id + ".plugin.yaml");
  EXPECT_TRUE(manifest.ok()) << manifest.status().message();
  auto library = plugin::Library::load(*manifest);
  EXPECT_TRUE(library.ok()) << library.status().message();
  return {*manifest, *library};
}

}  // namespace bp::testing
