// Stage `draw`: fills the batch of a step with rows of the resident samples, and says which environments they are of.
// The draws are those of src/engine/draw.rs: a permutation of an environment's rows, chosen by seed, step and environment.
// A workgroup takes 8 rows with 32 threads each.
#bind x, blocks, environments, state, samples, sources
#use grid

#use permutation

const LANES: u32 = 256u / GROUP_ROWS;

fn mix_bits(value: u32) -> u32 {
    var h = value;
    h ^= h >> 16u;
    h *= 0x7feb352du;
    h ^= h >> 15u;
    h *= 0x846ca68bu;
    return h ^ (h >> 16u);
}

fn key_of(step: u32, purpose: u32) -> u32 {
    let low = mix_bits(job.seed_low ^ 0x9e3779b9u);
    let high = mix_bits(low ^ job.seed_high);
    return mix_bits(mix_bits(high ^ step) + purpose * 0x85ebca6bu);
}

fn permuted(key: u32, at: u32, n: u32) -> u32 {
    if (n <= 1u) { return 0u; }
    let bits = max((32u - countLeadingZeros(n - 1u) + 1u) / 2u, LEAST_BITS);
    let mask = (1u << bits) - 1u;
    var value = at;
    loop {
        var left = value >> bits;
        var right = value & mask;
        for (var round = 0u; round < ROUNDS; round++) {
            let scrambled = mix_bits(right ^ (key + round * 0x9e3779b9u)) & mask;
            let before = right;
            right = left ^ scrambled;
            left = before;
        }
        value = (left << bits) | right;
        if (value < n) { break; }
    }
    return value;
}

fn environment_at(step: u32, slot: u32) -> u32 {
    if (job.slots == job.environments) { return slot; }
    return permuted(key_of(step, 0u), slot, job.environments);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let step = atomicLoad(&state[0]);
    let groups = ROW_BLOCK / GROUP_ROWS; // of a block
    let block = job.first_block + group / groups;
    let is_first = group % groups == 0u;
    let slot = block / job.slot_blocks;
    let e = environment_at(step, slot);
    if (is_first && thread == 0u) {
        blocks[block].environment = e;
        if (block % job.slot_blocks == 0u) {
            environments[e].first_block = block;
            environments[e].blocks = job.slot_blocks;
        }
    }
    // The first workgroup clears the environments that this step does not draw.
    if (is_first && block == 0u && job.slots != job.environments) {
        for (var other = thread; other < job.environments; other += 256u) {
            var drawn = false;
            for (var at = 0u; at < job.slots; at++) { drawn = drawn || environment_at(step, at) == other; }
            if (!drawn) { environments[other].blocks = 0u; }
        }
    }
    let row = group * GROUP_ROWS + thread / LANES; // of the span
    let at = block % job.slot_blocks * ROW_BLOCK + row % ROW_BLOCK;
    if (at >= job.batch_rows) { return; }
    let source = sources[e];
    let key = mix_bits(key_of(step, 1u + e) + at / source.rows);
    let read_at = (source.first_row + permuted(key, at % source.rows, source.rows)) * job.stride;
    let write_at = row * job.stride;
    for (var k = thread % LANES; k < job.stride; k += LANES) { x[write_at + k] = samples[read_at + k]; }
}
