#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "common/cuda/device.hpp"
#include "common/rotation.hpp"

namespace opbook::gpu {

/// Each position, in memory of the device, must be a row of the tables. Kernels never read beyond
/// them, and write NaN in the row of a position that is not there; who would rather have an
/// ArgumentError, naming it, asks before. Waits for the stream, and copies the positions to the
/// host.
template <class T>
void require_positions_within(Stream stream, const RopeTables<T>& tables) {
  tables.positions.visit([&](auto on_device) {
    using Index = std::remove_cvref_t<decltype(*on_device.data)>;
    std::vector<Index> on_host(static_cast<std::size_t>(on_device.size));
    synchronise(stream);
    copy_to_host(reinterpret_cast<std::byte*>(on_host.data()),
                 reinterpret_cast<const std::byte*>(on_device.data),
                 on_device.size * static_cast<std::int64_t>(sizeof(Index)));
    RopeTables<T> checked = tables;
    checked.positions = Row<const Index>{on_host.data(), on_device.size};
    opbook::require_positions_within(checked);
  });
}

}  // namespace opbook::gpu
