// Tensors that are stored conjugated or negated, on their way through PyTorch to this backend.
#pragma once

namespace banyan::pytorch {

// PyTorch itself replaces such tensors by copies before any call of a group, and drops what is written to the copies.
// From now on those of this backend's groups come to it as they are (buffers.h: is_plain()); other backends have them
// as before. Once for a process, when all calls of torch.distributed are known.
void pass_marked_tensors_on();

}  // namespace banyan::pytorch
