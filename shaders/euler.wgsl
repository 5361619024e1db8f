// Stage `euler`: one step x ← x + b(x) dt + √dt σ_e z of every chain (Euler–Maruyama), after `drift` and, for the MLP,
// `tilt` have left b in the chains' records. Step 0 draws where chains start instead: a standard normal point.
// z is counter-based: it follows from the environment's seed, the step, the chain's number within its environment and the
// variable, so chains need no state, and an intervention's draws do not depend on its neighbours.
// A workgroup takes a block of 64 chains with 4 threads each; one environment is one intervention.
#bind x, work, parameters, floors, seeds
#use grid
#use rows

// A chain beyond this stays where it is: the host sees it there and says so.
const FAR: f32 = 1e10;

// Threefry-4x32 with 20 rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3").
fn threefry(counter: vec4<u32>, key: vec4<u32>) -> vec4<u32> {
    let parity = 0x1bd11bdau ^ key.x ^ key.y ^ key.z ^ key.w;
    var keys = array<u32, 5>(key.x, key.y, key.z, key.w, parity);
    var first = array<u32, 8>(10u, 11u, 13u, 23u, 6u, 17u, 25u, 18u);
    var second = array<u32, 8>(26u, 21u, 27u, 5u, 20u, 11u, 10u, 20u);
    var v = counter + key;
    for (var round = 0u; round < 20u; round += 2u) {
        let a = round % 8u;
        v.x += v.y; v.y = rotated(v.y, first[a]) ^ v.x;
        v.z += v.w; v.w = rotated(v.w, second[a]) ^ v.z;
        v.x += v.w; v.w = rotated(v.w, first[a + 1u]) ^ v.x;
        v.z += v.y; v.y = rotated(v.y, second[a + 1u]) ^ v.z;
        if (round % 4u == 2u) {
            let s = round / 4u + 1u;
            v += vec4<u32>(keys[s % 5u], keys[(s + 1u) % 5u], keys[(s + 2u) % 5u], keys[(s + 3u) % 5u]);
            v.w += s;
        }
    }
    return v;
}

fn rotated(bits: u32, by: u32) -> u32 { return (bits << by) | (bits >> (32u - by)); }

// Four standard normal numbers for quad k of a chain at this step (Box and Muller).
fn normals(seed: vec2<u32>, chain: u32, k: u32) -> vec4<f32> {
    let bits = threefry(vec4<u32>(job.step, chain, k, 0u), vec4<u32>(seed, 0u, 0u));
    // Within (0, 1): the logarithm is finite.
    let u = (vec4<f32>(bits >> vec4<u32>(8u)) + 0.5) * exp2(-24.0);
    let radius = sqrt(-2.0 * log(u.xz));
    let angle = 6.2831853 * u.yw;
    let z = vec4<f32>(radius.x * cos(angle.x), radius.x * sin(angle.x), radius.y * cos(angle.y), radius.y * sin(angle.y));
    return select(vec4<f32>(0.0), z, inside(k));
}

// Which numbers of quad k are variables rather than padding.
fn inside(k: u32) -> vec4<bool> {
    return vec4<u32>(4u * k, 4u * k + 1u, 4u * k + 2u, 4u * k + 3u) < vec4<u32>(job.dim);
}

fn row_of_noise(variable: u32, record: u32) -> f32 {
    if (variable >= job.dim) { return 0.0; }
    var sum = 0.0;
    let noise = job.at_noise + variable * job.stride;
    for (var k = 0u; k < job.stride; k++) { sum += dot(parameters[noise + k], work[record + job.at_bar + k]); }
    return sum;
}

// σ_e z of quad k.
fn noise_of(e: u32, chain: u32, record: u32, k: u32) -> vec4<f32> {
    let log_scale = parameters[job.at_scale + e * job.stride + k];
    if (FULL) {
        let v = 4u * k;
        let sum = vec4<f32>(
            row_of_noise(v, record), row_of_noise(v + 1u, record), row_of_noise(v + 2u, record), row_of_noise(v + 3u, record));
        return exp(log_scale) * sum;
    }
    return exp(parameters[job.at_noise + k] + log_scale) * normals(seeds[e], chain, k);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let group = group_of(id);
    if (group >= job.groups) { return; }
    let row = group * ROW_BLOCK + thread / 4u;
    let block = block_of(row);
    let e = block.environment;
    let chain = (job.first_block - block.first_block) * ROW_BLOCK + row;
    let record = row * job.work_stride;
    if (FULL) {
        // Every variable needs all of its chain's z: they go through the chain's record.
        for (var k = thread % 4u; k < job.stride; k += 4u) { work[record + job.at_bar + k] = normals(seeds[e], chain, k); }
        storageBarrier();
    }
    for (var k = thread % 4u; k < job.stride; k += 4u) {
        let at = row * job.stride + k;
        let before = x[at];
        var after: vec4<f32>;
        if (job.step == 0u) {
            after = normals(seeds[e], chain, k);
        } else {
            after = before + work[record + job.at_b + k] * job.dt + job.root_dt * noise_of(e, chain, record, k);
        }
        after = select(after, floors[k], after < floors[k]);
        // Written so that a NaN counts as far.
        let near = abs(after) <= vec4<f32>(FAR);
        let held = select(vec4<f32>(2.0 * FAR), before, abs(before) > vec4<f32>(FAR));
        after = select(held, after, near & (abs(before) <= vec4<f32>(FAR)));
        x[at] = select(vec4<f32>(0.0), after, inside(k));
    }
}
