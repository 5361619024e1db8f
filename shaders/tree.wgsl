// Sums over the 16 rows of threads of a workgroup of 16 × 16, in a fixed order (a tree, so pairwise). Identity 0.
var<workgroup> tree: array<vec4<f32>, 256>; // (16 lanes, 16 columns)

// Every thread gives its value; the threads of lane 0 get the sum of their column. Must be called in uniform control.
fn sum_lanes(value: vec4<f32>, thread: u32) -> vec4<f32> {
    workgroupBarrier();
    tree[thread] = value;
    for (var half = 128u; half >= 16u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { tree[thread] += tree[thread + half]; }
    }
    workgroupBarrier();
    return tree[thread % 16u];
}

// Sums over all threads; thread 0 gets the sum.
fn sum_all(value: vec4<f32>, thread: u32) -> vec4<f32> {
    // The 16 columns that lane 0 holds are few: one thread adds them.
    var total = sum_lanes(value, thread);
    workgroupBarrier();
    if (thread < 16u) { tree[thread] = total; }
    workgroupBarrier();
    if (thread == 0u) {
        for (var column = 1u; column < 16u; column++) { total += tree[column]; }
    }
    return total;
}
