# Third-party libraries: what is installed is used; what is missing is fetched as a release archive
# whose hash is pinned here. An archive that already lies in OPBOOK_DOWNLOADS is not downloaded
# again, so a machine without network is served by putting the files there under these names.
include(FetchContent)

option(OPBOOK_FETCH "Fetch libraries that are not installed" ON)
set(OPBOOK_DOWNLOADS "${OPBOOK_ROOT}/build/downloads" CACHE PATH "Folder of fetched archives")

find_package(Threads REQUIRED)
find_package(OpenMP COMPONENTS CXX)
if(NOT OpenMP_CXX_FOUND)
  opbook_stop("${CMAKE_CXX_COMPILER} has no OpenMP here: install it (for clang: libomp-dev), or "
    "compile with g++")
endif()

set(opbook_missing)
set(opbook_not_downloaded)

# opbook_dependency(<package> <oldest version> <archive's name> <its URL> <its SHA-256>)
#
# A macro, since imported targets and package variables belong to the caller's directory.
macro(opbook_dependency package version archive url sha256)
  find_package(${package} ${version} QUIET)
  if(${package}_FOUND)
    message(STATUS "${package} ${${package}_VERSION}: installed (${${package}_DIR})")
  elseif(NOT OPBOOK_FETCH)
    list(APPEND opbook_missing "${package} ${version}")
  else()
    set(file "${OPBOOK_DOWNLOADS}/${archive}")
    message(STATUS "${package}: not installed; fetching ${url}")
    file(DOWNLOAD "${url}" "${file}" EXPECTED_HASH SHA256=${sha256}
      STATUS download INACTIVITY_TIMEOUT 60)
    if(download MATCHES "^0;")
      FetchContent_Declare(${package} URL "${file}" URL_HASH SHA256=${sha256}
        DOWNLOAD_EXTRACT_TIMESTAMP OFF SYSTEM EXCLUDE_FROM_ALL)
      FetchContent_MakeAvailable(${package})
    else()
      list(POP_BACK download reason)
      list(APPEND opbook_not_downloaded "${url} as ${file} (${reason})")
    endif()
  endif()
endmacro()

opbook_dependency(nlohmann_json 3.10 json-3.12.0.tar.xz
  https://github.com/nlohmann/json/releases/download/v3.12.0/json.tar.xz
  42f6e95cad6ec532fd372391373363b62a14af6d771056dbfc86160e6dfff7aa)
opbook_dependency(fmt 9 fmt-10.2.1.tar.gz
  https://github.com/fmtlib/fmt/archive/refs/tags/10.2.1.tar.gz
  1250e4cc58bf06ee631567523f48848dc4596133e163f02615c97f78bab6c811)
opbook_dependency(CLI11 2.1 cli11-2.4.2.tar.gz
  https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.4.2.tar.gz
  f2d893a65c3b1324c50d4e682c0cdc021dd0477ae2c048544f39eed6654b699a)
if(BUILD_TESTING)
  opbook_dependency(Catch2 3.4 catch2-3.7.1.tar.gz
    https://github.com/catchorg/Catch2/archive/refs/tags/v3.7.1.tar.gz
    c991b247a1a0d7bb9c39aa35faf0fe9e19764213f28ffba3109388e62ee0269c)
endif()

if(opbook_missing)
  list(JOIN opbook_missing "\n" text)
  file(WRITE "${CMAKE_BINARY_DIR}/missing-libraries.txt" "${text}\n")
  list(JOIN opbook_missing ", " text)
  opbook_stop("not installed: ${text}. Install them or set OPBOOK_FETCH=ON")
endif()
if(opbook_not_downloaded)
  list(JOIN opbook_not_downloaded "\n  " text)
  opbook_stop("these could not be downloaded. Without a network, save each under the name given "
    "and run this again:\n  ${text}")
endif()
