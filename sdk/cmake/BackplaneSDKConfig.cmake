# find_package(BackplaneSDK 0.1 REQUIRED)
#   Backplane::sdk            the headers: the C ABI (C11), and the C++ layer over it (C++20)
#   Backplane::reference      the reference interpreter, a static library to build a backend on
#   backplane_add_plugin()    see BackplanePlugin.cmake
get_filename_component(BACKPLANE_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET Backplane::sdk)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  add_library(Backplane::sdk INTERFACE IMPORTED)
  target_include_directories(Backplane::sdk INTERFACE ${BACKPLANE_PREFIX}/include)
  if("CXX" IN_LIST languages)
    target_compile_features(Backplane::sdk INTERFACE cxx_std_20)
  endif()

  add_library(Backplane::reference STATIC IMPORTED)
  set_target_properties(Backplane::reference PROPERTIES
    IMPORTED_LOCATION ${BACKPLANE_PREFIX}/lib/libbackplane_reference.a
    IMPORTED_LINK_INTERFACE_LANGUAGES CXX)
  target_link_libraries(Backplane::reference INTERFACE Backplane::sdk)
endif()

include(${CMAKE_CURRENT_LIST_DIR}/BackplanePlugin.cmake)
