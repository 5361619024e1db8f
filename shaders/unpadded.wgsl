// Zero in place of padding, the numbers of a quad of columns past `count`: there a tile has copies of the last column.
fn unpadded(value: vec4<f32>, column: u32, count: u32) -> vec4<f32> {
    let at = vec4<u32>(4u * column, 4u * column + 1u, 4u * column + 2u, 4u * column + 3u);
    return select(vec4<f32>(0.0), value, at < vec4<u32>(count));
}
