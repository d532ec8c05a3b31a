# backplane_add_plugin(NAME SOURCES ... [LIBRARIES ...] MANIFEST file)
# Builds NAME.so that exports bp_plugin_query and nothing else, and puts its manifest beside it, as
# NAME.plugin.yaml: in the folder BACKPLANE_PLUGIN_DIR where that is set, else in the build folder.

function(backplane_add_plugin name)
  cmake_parse_arguments(ARG "" "MANIFEST" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT ARG_SOURCES OR NOT ARG_MANIFEST)
    message(FATAL_ERROR "backplane_add_plugin(${name}): SOURCES and MANIFEST are required")
  endif()
  get_filename_component(manifest ${ARG_MANIFEST} ABSOLUTE)
  add_library(${name} MODULE ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE Backplane::sdk ${ARG_LIBRARIES})
  if(BACKPLANE_PLUGIN_DIR)
    set(out ${BACKPLANE_PLUGIN_DIR})
  else()
    set(out ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  set_target_properties(${name} PROPERTIES
    PREFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${out}
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map;${manifest}")
  # Visibility flags alone leave weak std:: symbols exported; the version script hides them too.
  target_link_options(${name} PRIVATE
    -Wl,--version-script=${CMAKE_CURRENT_FUNCTION_LIST_DIR}/plugin.map -Wl,--exclude-libs,ALL)
  # Undefined symbols are found at build time; a sanitizer's own come with the program.
  if(NOT BACKPLANE_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,-z,defs)
  endif()
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${manifest} ${out}/${name}.plugin.yaml)
  set_target_properties(${name} PROPERTIES BACKPLANE_MANIFEST ${manifest})
  set_property(GLOBAL APPEND PROPERTY BACKPLANE_PLUGINS ${name})
endfunction()
