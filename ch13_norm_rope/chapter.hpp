#pragma once

#include "common/chapter.hpp"

namespace opbook::ch13 {

/// This chapter, as the subcommands verify, bench and show see it.
Chapter chapter();

}  // namespace opbook::ch13
