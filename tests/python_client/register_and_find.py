"""Registers a model, a version and its artifact with the `model-registry` client, and finds them again.

    register_and_find.py REGISTRY_URL MODEL_NAME VERSION_NAME

The last line on standard output is a JSON object with the ids, as they were found. Exit 1 when what is found is
not what was registered.
"""

import json
import sys
import warnings
from urllib.parse import urlparse

from model_registry import ModelRegistry

URI = "s3://models/weights"


def connect(url):
    address = urlparse(url)
    # Without a token the client warns, and goes on.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ModelRegistry(
            f"{address.scheme}://{address.hostname}",
            address.port or 80,
            author="a stranger",
            is_secure=False,
        )


def register_and_find(url, name, version_name):
    client = connect(url)
    registered = client.register_model(
        name,
        URI,
        model_format_name="sklearn",
        model_format_version="1",
        version=version_name,
        version_description="as a data scientist would",
        metadata={"accuracy": 0.75, "epochs": 3, "final": True, "stage": "trial"},
    )

    # A second client has nothing remembered.
    client = connect(url)
    model = client.get_registered_model(name)
    version = client.get_model_version(name, version_name)
    artifact = client.get_model_artifact(name, version_name)
    assert model and version and artifact, (model, version, artifact)
    assert model.id == registered.id, (model.id, registered.id)
    assert artifact.uri == URI, artifact.uri
    assert version.custom_properties == {"accuracy": 0.75, "epochs": 3, "final": True, "stage": "trial"}, version
    assert [found.id for found in client.get_registered_models() if found.name == name] == [model.id]
    assert [found.id for found in client.get_model_versions(name)] == [version.id]

    # Each of the three can be changed, and keeps its id.
    model.description = "changed"
    version.custom_properties["stage"] = "done"
    artifact.description = "changed"
    for changed in (model, version, artifact):
        assert client.update(changed).id == changed.id
    assert client.get_registered_model(name).description == "changed"
    assert client.get_model_version(name, version_name).custom_properties["stage"] == "done"
    assert client.get_model_artifact(name, version_name).description == "changed"

    return {"model": model.id, "version": version.id, "artifact": artifact.id}


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    print(json.dumps(register_and_find(*sys.argv[1:])))
